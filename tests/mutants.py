"""Break the library on purpose, one place at a time, and see the tests go red: `make mutants`.

Each mutant replaces one text of one room in a copy of the project, and is to be caught by the tests that specify that
room. One that survives is a test that is missing; the command then ends with 1.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Seconds; a mutant that makes the tests hang is caught too.
PATIENCE = 180


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake that somebody could make: ``old`` in a room becomes ``new``."""

    name: str
    room: str
    old: str
    new: str
    tests: tuple[str, ...]

    def broken(self, whole: str) -> str:
        """Return a room's text with the mistake in it; raise when it does not fit the room, or does not compile."""
        if whole.count(self.old) != 1:
            message = f"{self.name}: {self.old!r} stands {whole.count(self.old)} times in {self.room}"
            raise ValueError(message)
        broken = whole.replace(self.old, self.new)
        compile(broken, self.room, "exec")  # or any test would catch it
        return broken


SESSIONS = ("tests/test_sessions.py",)
MIDDLEWARE = ("tests/test_sessions.py", "tests/test_middleware.py", "tests/test_conformance.py")
REDIRECTS = ("tests/test_redirects.py",)
OPERATIONS = ("tests/test_operations.py",)
DEPRECATION = ("tests/test_deprecation.py", "tests/test_middleware.py")
RECORDS = ("tests/test_records.py", "tests/test_service.py")
SERVICE = ("tests/test_service.py", "tests/test_doors.py")

MUTANTS = [
    Mutant("match instead of fullmatch", "sessions", "_B64TOKEN.fullmatch(value)", "_B64TOKEN.match(value)", SESSIONS),
    Mutant("split on any white space", "sessions", 'rest.lstrip(" ").encode', "rest.split()[0].encode", SESSIONS),
    Mutant("strip any white space", "sessions", 'header.strip(" \\t")', "header.strip()", SESSIONS),
    Mutant("take the first of two keys", "sessions", "len(pairs) > 1", "len(pairs) > 9", SESSIONS),
    Mutant("prefer the header", "sessions", "and header != query", "and not header", SESSIONS),
    Mutant("let an empty value fall through", "sessions", "if not value:\n        return _ambiguous(", "if not value:\n        return str(", SESSIONS),
    Mutant("decode twice", "sessions", "return unquote_to_bytes(value", "return unquote_to_bytes(unquote_to_bytes(value).decode('latin-1')", SESSIONS),
    Mutant("match the key exactly", "sessions", 'rf"{_KEY}(?:=|\\Z)", re.IGNORECASE | re.ASCII', 'rf"{_KEY}(?:=|\\Z)", re.ASCII', SESSIONS),
    Mutant("split at semicolons", "sessions", 'query.split("&") if _PAIR.match(pair)', 're.split("[&;]", query) if _PAIR.match(pair)', SESSIONS),
    Mutant("no limit", "sessions", "len(value) > MAX_LENGTH or ", "", SESSIONS),
    Mutant("compare the scheme exactly", "sessions", 'rf"bearer(?!{TOKEN})", re.IGNORECASE', 'rf"Bearer(?!{TOKEN})"', SESSIONS),
    Mutant("take a longer scheme", "sessions", 'rf"bearer(?!{TOKEN})"', 'rf"bearer"', SESSIONS),
    Mutant("allow joined credentials", "sessions", 'if "," in header and', "if None and", SESSIONS),
    Mutant("commas in quotes count", "sessions", "_QUOTED.sub(_blank_if_closed, header)", "header", SESSIONS),
    Mutant("trust what stands in the environ", "sessions", "isinstance(known, SessionCredential)", "known is not None", SESSIONS),
    Mutant("show the value", "sessions", "value={MASK}", "value={self.value}", SESSIONS),
    Mutant("leave a placeholder in the query", "sessions", '"&".join(pair for pair in query.split("&") if not _PAIR.match(pair))', "redact_uri('?' + query)[1:]", SESSIONS),
    Mutant("overwrite a header that came", "sessions", "if not _authorization(environ):", "if environ:", SESSIONS),
    Mutant("forget the Referer", "sessions", ', "HTTP_REFERER")', ")", SESSIONS),
    Mutant("forget what follows a semicolon", "sessions", "([?&;#]{_KEY}=)", "([?&#]{_KEY}=)", SESSIONS),
    Mutant("forget a fragment", "sessions", "([?&;#]{_KEY}=)", "([?&;]{_KEY}=)", SESSIONS),
    Mutant("drop log records", "sessions", "            record.msg, record.args = masked, ()\n", "            return False\n", SESSIONS),
    Mutant("copy the environ", "middleware", "return self._serve(claim, environ, start_response)", "return self._serve(claim, dict(environ), start_response)", MIDDLEWARE),
    Mutant("redact after the response", "middleware", "        carried = claim_session(environ) if self._extract else SessionClaim()\n", "        carried = claim_session(dict(environ)) if self._extract else SessionClaim()\n", MIDDLEWARE),
    Mutant("claim twice", "middleware", "if claim is None or _IN_FLIGHT in environ:", "if claim is None:", MIDDLEWARE),
    Mutant("leave the mark", "middleware", "environ.pop(_IN_FLIGHT, None)", "environ.get(_IN_FLIGHT)", MIDDLEWARE),
    Mutant("wrap the iterable", "middleware", "        return body\n", "        return iter(body)\n", MIDDLEWARE),
    Mutant("lose the writer", "middleware", "        return write\n", "        return None\n", MIDDLEWARE),
    Mutant("lose a double field", "middleware", "fields = without(came, _ANNOUNCED)", "fields = [*dict(without(came, _ANNOUNCED)).items()]", MIDDLEWARE),
    Mutant("session before phase", "middleware", "if phase is Phase.SUNSET:", "if phase is Phase.SUNSET and not isinstance(session, SessionRefused):", MIDDLEWARE),
    Mutant("let an observer break the answer", "middleware", "            except Exception as fault:", "            except ZeroDivisionError as fault:", MIDDLEWARE),
    Mutant("two slashes in front of a target", "middleware", 'environ.get("SCRIPT_NAME", "").strip("/")', 'environ.get("SCRIPT_NAME", "")', MIDDLEWARE),
    Mutant("restore to any host", "redirects", "return same_origin and claimed", "return claimed", REDIRECTS),
    Mutant("restore to unclaimed paths", "redirects", "return same_origin and claimed", "return same_origin", REDIRECTS),
    Mutant("restore twice", "redirects", " and not session_pairs(target.query)", "", REDIRECTS),
    Mutant("forget the method", "redirects", 'else "GET"', "else self.method", REDIRECTS),
    Mutant("match a prefix", "operations", "if depth == len(folded):", "if depth == len(folded) or not self.literals:", OPERATIONS),
    Mutant("a parameter may be empty", "operations", 'frozenset({"", ".", ".."})', 'frozenset({".", ".."})', OPERATIONS),
    Mutant("dot segments match", "operations", 'frozenset({"", ".", ".."})', 'frozenset({""})', OPERATIONS),
    Mutant("claim OPTIONS", "operations", 'if method == "HEAD" else None', 'if method in {"HEAD", "OPTIONS"} else None', OPERATIONS),
    Mutant("fold beyond ASCII", "operations", "path.lower() if path.isascii() else path.translate(_ASCII_LOWER)", "path.lower()", OPERATIONS),
    Mutant("change a parameter's case", "operations", "return template.claim(_segments(path))", "return template.claim(_segments(_fold(path)))", OPERATIONS),
    Mutant("closed windows", "deprecation", "window.start <= at < window.end", "window.start <= at <= window.end", DEPRECATION),
    Mutant("enforce what was only announced", "deprecation", "if self.enforce_sunset and self.sunset_at", "if self.sunset_at", DEPRECATION),
    Mutant("sunset one moment late", "deprecation", "at >= self.sunset_at:", "at > self.sunset_at:", DEPRECATION),
    Mutant("compare clocks, not times", "deprecation", 'dates["end"].astimezone(UTC) <= dates["start"].astimezone(UTC)', 'dates["end"] <= dates["start"]', DEPRECATION),
    Mutant("a short array", "records", "            spool.close()\n            raise\n", "            return b'[]', 2\n", RECORDS),
    Mutant("leave the file open", "records", "                self._file.close()\n", "                pass\n", RECORDS),
    Mutant("do not rewind", "records", "            self._file.seek(0)\n", "", RECORDS),
    Mutant("trust any bytes", "records", "if set(map(_outer_bytes, texts)) != _BRACES and", "if False and", RECORDS),
    Mutant("take a false caller for none", "service", "if caller is None:", "if not caller:", SERVICE),
    Mutant("log the text of exceptions", "service", "__qualname__} (", "__qualname__} {fault} (", SERVICE),
    Mutant("do not close", "service", "            close()\n", "            pass\n", SERVICE),
]  # fmt: skip


def main() -> int:
    """Try every mutant, or those named on the command line, and say which ones survive."""
    chosen = [mutant for mutant in MUTANTS if not sys.argv[1:] or mutant.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "instance", "_build", "node_modules"))
        survivors = [mutant for mutant in chosen if _survives(mutant, copy)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were caught")
    return 1 if survivors else 0


def _survives(mutant: Mutant, copy: Path) -> bool:
    room = copy / "flask_notifications" / f"{mutant.room}.py"
    whole = room.read_text(encoding="utf-8")
    room.write_text(mutant.broken(whole), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
    try:
        survives = subprocess.run(command, cwd=copy, capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        survives = False
    finally:
        room.write_text(whole, encoding="utf-8")
    print(f"{'SURVIVED' if survives else 'caught':9} {mutant.room}: {mutant.name}", flush=True)
    return survives


if __name__ == "__main__":
    sys.exit(main())
