"""Each way of naming a caller that docs/callers.md shows works with its real library, server or proxy."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
import trustme
from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware, Operation
from tests.servers.nginx import proxying
from tests.servers.process import PATIENCE, Program, Server, gunicorn, serving, uwsgi
from tests.servers.recipes import DJANGO, POLICY, RECIPES, application, identify, respond
from tests.wsgi import call

GUNICORN = gunicorn("sync", application="tests.servers.recipes:application")
KEY = "the key of your issuer, or its public key"


def ask(recipe: str, **headers: str) -> str:
    """Return the label of an exempt caller, or the status."""
    response = Client(application, use_cookies=False).get(
        f"/{recipe}", headers={name.replace("_", "-"): headers[name] for name in headers}
    )
    return response.text if response.status_code == 200 else str(response.status_code)


def log_in(user: str) -> str:
    RECIPES["flask"].session["user"] = user
    return user


def cookie_of(user: str) -> str:
    """Return the cookie of Flask's own session."""
    shop = RECIPES["shop"]
    if "log_in" not in shop.view_functions:
        shop.add_url_rule("/login/<user>", "log_in", log_in)
    return str(shop.test_client().get(f"/login/{user}").headers["Set-Cookie"].partition(";")[0])


def bearer(key: str = KEY, **payload: Any) -> str:
    return f"Bearer {jwt.encode(payload, key, algorithm='HS256')}"


def basic(user: str) -> str:
    request = requests.Request("GET", "http://a.example/", auth=(user, "s3cret")).prepare()
    return str(request.headers["Authorization"])


@pytest.mark.parametrize(
    ("recipe", "headers", "label"),
    [
        ("basic_user", {"Authorization": basic("warehouse")}, "warehouse"),
        ("basic_user", {}, "410"),
        ("api_key", {"X_API_Key": "the key of the warehouse"}, "warehouse"),
        ("api_key", {"X_API_Key": "another key"}, "410"),
        ("jwt_subject", {"Authorization": bearer(sub="warehouse")}, "warehouse"),
        ("jwt_subject", {"Authorization": bearer("another key, which is of somebody else", sub="warehouse")}, "410"),
        ("jwt_subject", {"Authorization": bearer(sub="warehouse", exp=1)}, "410"),
        ("jwt_subject", {"Authorization": bearer(name="warehouse")}, "410"),
        ("jwt_subject", {"Authorization": "Bearer " + jwt.encode({"sub": "warehouse"}, "", algorithm="none")}, "410"),
        ("jwt_subject", {"Authorization": basic("warehouse")}, "410"),
        ("flask_user", {"Cookie": cookie_of("warehouse")}, "warehouse"),
        ("flask_user", {"Cookie": cookie_of("warehouse")[:-1]}, "410"),
        ("flask_user", {}, "410"),
        ("certificate_name", {"X_Client_Name": "O=CN=other\\,CN=warehouse,CN=other"}, "410"),
    ],
)
def test_a_label_has_the_credential_that_it_needs(recipe: str, headers: dict[str, str], label: str) -> None:
    assert ask(recipe, **headers) == label


def test_an_exempt_caller_gets_the_date_of_its_exemption_before_the_deprecation() -> None:
    plan = {Operation("by recipe", "GET", "/{recipe}"): POLICY}
    early = DeprecationMiddleware(respond, plan, identify=identify, clock=lambda: POLICY.deprecated_at - timedelta(1))
    for user, sunset in (("warehouse", "Tue, 01 Jan 2999 00:00:00 GMT"), ("other", "Tue, 01 Jul 2025 00:00:00 GMT")):
        assert call(early, "GET", "/basic_user", HTTP_AUTHORIZATION=basic(user)).one("Sunset") == sunset


@contextmanager
def through_nginx(folder: Path, program: Program, site: str, **options: Any) -> Iterator[Server]:
    (folder / "passwords").write_text("warehouse:{PLAIN}s3cret\nother:{PLAIN}s3cret\n", encoding="utf-8")
    with (
        serving(program, folder / "origin") as origin,
        proxying(site, 0 if "to" in options else origin.port, folder / "proxy", **options) as proxy,
    ):
        yield proxy


def fetch(url: str, user: str, password: str = "s3cret") -> tuple[int, str]:  # noqa: S107 - no secret
    response = requests.get(url, auth=(user, password), timeout=PATIENCE)
    return response.status_code, response.text if response.ok else ""


def test_nginx_checks_the_password_of_http_basic(tmp_path: Path) -> None:
    site = f"auth_basic reports; auth_basic_user_file {tmp_path}/passwords"
    with through_nginx(tmp_path, GUNICORN, site) as proxy:
        url = proxy.url("/basic_user")
        assert (fetch(url, "warehouse"), fetch(url, "warehouse", "guess")) == ((200, "warehouse"), (401, ""))


def test_nginx_passes_the_user_to_uwsgi_as_remote_user(tmp_path: Path) -> None:
    program = replace(uwsgi((f"--socket={tmp_path}/uwsgi",)), application=GUNICORN.application)
    names = {"PATH_INFO": "document_uri", "QUERY_STRING": "query_string", "REMOTE_USER": "remote_user"}
    names |= {"REQUEST_METHOD": "request_method", "SERVER_PROTOCOL": "server_protocol"}
    parameters = "; ".join(f"uwsgi_param {name} ${value}" for name, value in names.items())
    site = f"auth_basic reports; auth_basic_user_file {tmp_path}/passwords; {parameters}"
    with through_nginx(tmp_path, program, site, to=f"uwsgi_pass unix:{tmp_path}/uwsgi") as proxy:
        url = proxy.url("/remote_user")
        assert (fetch(url, "warehouse"), fetch(url, "other")) == ((200, "warehouse"), (410, ""))


def test_nginx_passes_the_name_in_a_client_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    tls = (
        f"ssl_certificate {tmp_path}/server.pem; ssl_certificate_key {tmp_path}/server.pem; "
        f"ssl_client_certificate {tmp_path}/ca.pem; ssl_verify_client on"
    )
    forged = {"X-Client-Name": "CN=warehouse"}  # what anybody may send
    with through_nginx(tmp_path, GUNICORN, "proxy_set_header X-Client-Name $ssl_client_s_dn", tls=tls) as proxy:
        for name, status in (("warehouse", 200), ("other", 410)):
            issued = authority.issue_cert(f"{name}@example.com", common_name=name)
            issued.private_key_and_cert_chain_pem.write_to_path(file := tmp_path / f"{name}.pem")
            options: Any = {"headers": forged, "cert": str(file), "verify": str(tmp_path / "ca.pem")}
            url = f"https://127.0.0.1:{proxy.port}/certificate_name"
            assert requests.get(url, timeout=PATIENCE, **options).status_code == status


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
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["warehouse", "other", "None"]
