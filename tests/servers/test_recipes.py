"""Each way of naming a caller that docs/callers.md shows works with its real library,
server or proxy.

In ``application``, an operation has ended for each recipe. Only ``warehouse`` is
exempt, so it gets its own label as a response, and every other caller gets 410.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import jwt
import pytest
import requests
import trustme

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Exemption,
    Operation,
)
from tests.servers.nginx import proxying
from tests.servers.process import PATIENCE, ROOT, gunicorn, run_program, serving
from tests.wsgi import call

PAGE = (ROOT / "docs" / "callers.md").read_text(encoding="utf-8")
(DJANGO,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RECIPES: dict[str, Any] = {}
for _block in re.findall(
    r"^```python\n(.*?)^```$",
    PAGE.partition("\n## Let one caller")[0],
    re.MULTILINE | re.DOTALL,
):
    exec(_block, RECIPES)  # noqa: S102 - as its reader does

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2025, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2025, 7, 1, tzinfo=UTC),
    enforce_sunset=True,
    exemptions=[Exemption("warehouse", datetime(2999, 1, 1, tzinfo=UTC), "contract")],
)


def identify(environ: WSGIEnvironment) -> Any:
    """Name the caller with the recipe that is the path."""
    return RECIPES[environ["PATH_INFO"].removeprefix("/")](environ)


def respond(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """Respond with the label of the caller."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ.get("flask_notifications.caller", "nobody").encode()]


PLAN = {
    Operation("by recipe", "GET", "/{recipe}"): POLICY,
    Operation("live", "GET", "/ready"): None,
}
application = DeprecationMiddleware(respond, PLAN, identify=identify)
KEY = "the key of your issuer, or its public key"


def cookie_of(user: str) -> str:
    """Return the cookie of Flask's own session."""
    shop = RECIPES["shop"]
    return f"session={shop.session_interface.get_signing_serializer(shop).dumps({'user': user})}"


def bearer(key: str = KEY, algorithm: str = "HS256", **payload: Any) -> str:
    return f"Bearer {jwt.encode(payload, key, algorithm)}"


FORGED = bearer("another key, of somebody elsewhere", sub="warehouse")
# The recipe, the key of the environ with the credential, and the status.
CREDENTIALS = [
    ("remote_user", "REMOTE_USER", "warehouse", 200),
    ("api_key", "HTTP_X_API_KEY", "the key of the warehouse", 200),
    ("api_key", "HTTP_X_API_KEY", "another key", 410),
    ("jwt_subject", "HTTP_AUTHORIZATION", bearer(sub="warehouse"), 200),
    ("jwt_subject", "HTTP_AUTHORIZATION", FORGED, 410),
    ("jwt_subject", "HTTP_AUTHORIZATION", bearer(sub="warehouse", exp=1), 410),
    ("jwt_subject", "HTTP_AUTHORIZATION", bearer("", "none", sub="warehouse"), 410),
    ("flask_user", "HTTP_COOKIE", cookie_of("warehouse"), 200),
    ("flask_user", "HTTP_COOKIE", cookie_of("warehouse")[:-1], 410),
    ("certificate_name", "HTTP_X_CLIENT_NAME", "O=CN=o\\,CN=warehouse,CN=a", 410),
]


@pytest.mark.parametrize(
    ("recipe", "key", "credential", "status"),
    CREDENTIALS,
    ids=range(len(CREDENTIALS)),  # a cookie has the time of its signature
)
def test_a_label_has_the_credential_that_it_needs(
    recipe: str, key: str, credential: str, status: int
) -> None:
    response = call(application, "GET", f"/{recipe}", **{key: credential})
    assert response.code == status
    if status == 200:
        assert response.body == b"warehouse"


def test_nginx_passes_the_name_in_a_client_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    server.write_to_path(tmp_path / "server.pem")
    tls = (
        f"ssl_certificate {tmp_path}/server.pem; ssl_certificate_key {tmp_path}/server.pem; "
        f"ssl_client_certificate {tmp_path}/ca.pem; ssl_verify_client on"
    )
    forged = {"X-Client-Name": "CN=warehouse"}  # what anybody may send
    site = "proxy_set_header X-Client-Name $ssl_client_s_dn"
    program = gunicorn("sync", application="tests.servers.test_recipes:application")
    with (
        serving(program, tmp_path / "origin") as origin,
        proxying(site, origin.port, tmp_path / "proxy", tls=tls) as proxy,
    ):
        for name, status in (("warehouse", 200), ("other", 410)):
            client = authority.issue_cert(f"{name}@example.com", common_name=name)
            file = str(tmp_path / f"{name}.pem")
            client.private_key_and_cert_chain_pem.write_to_path(file)
            response = requests.get(
                f"https://127.0.0.1:{proxy.port}/certificate_name",
                timeout=PATIENCE,
                headers=forged,
                cert=file,
                verify=str(tmp_path / "ca.pem"),
            )
            assert response.status_code == status


DJANGO_PROGRAM = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
from mysite.wsgi import application as views
{recipe}
from django.contrib.auth.models import User
from django.test import Client
from werkzeug.test import EnvironBuilder
for name in ("warehouse", "other", None):
    client = Client()
    if name:
        client.force_login(User.objects.create_user(name))
    cookie = "; ".join(f"{{each.key}}={{each.value}}" for each in client.cookies.values())
    print(django_user(EnvironBuilder("/", headers={{"Cookie": cookie}}).get_environ()))
"""


def test_the_user_of_a_session_of_django(tmp_path: Path) -> None:
    commands = (
        ["-m", "django", "startproject", "mysite", "."],
        ["manage.py", "migrate", "-v0"],
        ["-c", DJANGO_PROGRAM.format(recipe=DJANGO)],
    )
    for command in commands:
        done = run_program(sys.executable, *command, cwd=tmp_path)
    assert done.stdout.splitlines() == ["warehouse", "other", "None"]
