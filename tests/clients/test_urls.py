"""Redirect locations are resolved as browsers do, so that no session reaches another
host.
"""

import json
from pathlib import Path
from random import Random

from flask_notifications.sessions.credential import digest_of
from flask_notifications.sessions.redirects import origin_of, restore_session
from tests.servers.process import run_program
from tests.services import program_or_skip
from tests.wsgi import environ_of

PIECES = ["/", "//", "\\", "\t", "\n", " ", ".", "..", "%2e", "%2F", ";", ":", "@", "?"]
PIECES += ["#", "&", "http:", "https:", "api.example", "b.example", "API", ":80", "a"]
PIECES += ["[::1]", "sessionId=x", "Notification"]
PAIR = "sessionId=S3CRET"
DIGEST = digest_of("S3CRET")
ORIGINS = ["http://api.example", "https://api.example", "https://api.example:80"]


def test_a_redirect_keeps_the_session_only_if_a_browser_stays_on_the_host() -> None:
    origin = origin_of(environ_of("GET", "/API/Notification/"))
    random = Random(7)  # noqa: S311 - the same locations each time
    restored = []
    for _number in range(15_000):
        target = "".join(random.choices(PIECES, k=random.randint(1, 6)))
        location = restore_session(f"{target}?{DIGEST}", origin, PAIR, DIGEST)
        if PAIR in location:
            restored.append(location)
    assert len(restored) > 100
    asked = {"base": "http://api.example/API/Notification/", "locations": restored}
    script = Path(__file__).with_name("urls.mjs")
    done = run_program(program_or_skip("node"), script, input=json.dumps(asked))
    for location, resolved in zip(restored, json.loads(done.stdout), strict=True):
        assert resolved is not None, location
        assert resolved[0] in ORIGINS, location
