"""The calls in access logs, by the rules of the middleware, for the time in which
nobody recorded.

Reads lines, keeps no more than a recorder keeps. Knows nothing of the store and of
verdicts.
"""

import gzip
import io
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import unquote

from flask_notifications.headers import TOKEN
from flask_notifications.observers import Call, client_of, decode_user
from flask_notifications.plans.conditions import fold
from flask_notifications.plans.operations import (
    NOT_REACHED,
    Match,
    Operation,
    decode_path,
    resolve_dots,
    template_shape,
)
from flask_notifications.plans.overlaps import find_rivals
from flask_notifications.plans.plan import Plan, deprecated_operations, table_of
from flask_notifications.plans.policy import CLOSED_PHASES, Phase
from flask_notifications.sessions.credential import (
    SessionCredential,
    list_session_ids,
    resolve,
)
from flask_notifications.sessions.redaction import MASK
from flask_notifications.validation import clean_label, require
from flask_notifications.wording import count

from .counts import Counts
from .coverage import RecorderRow, clip, combine
from .fingerprints import fingerprints
from .reading import Calls, Name, Snapshot
from .times import DAY, SECOND

Log: TypeAlias = "str | os.PathLike[str] | BinaryIO"

# A string in quotation marks, with the escapes of servers.
_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
# A word of a user. A hyphen alone ends the hosts, so a second one is ambiguous.
_WORD = r"(?!- )[^ \[]++"
# The Common format after any hosts or none, also with the two members that make it the
# Combined one. More may follow.
_COMMON = (
    rf"\A(?>(?:[^ \[]*+ )+?- )(?P<user>-|{_WORD}(?> {_WORD})*+) \[(?P<time>[^\]]++)\] "
    rf'"(?:(?P<method>[^\s"\\]++) (?P<target>[^\s"\\]++)(?: HTTP/[\d.]++)?|(?P<request>{_QUOTED}))" '
    rf'(?P<status>\d{{1,3}}|-) \S++(?: "{_QUOTED}" "(?P<agent>{_QUOTED})")?'
)
_NEEDED = ("time", "method", "target", "status")
_SLASH, _SLASHES = re.compile("/"), re.compile("/+")
# How servers escape quotes, backslashes and all but printable ASCII, and JSON these and
# the characters of HTML.
_ESCAPE = re.compile(
    r'(?i)\\(?:(?:x(?=[0189a-f]|22|5c|7f)|u00(?=[01]|2[267b]|3[c-e]|5c|60|7f))([0-9a-f]{2})|(["\\/]))'
)
# Some servers accept more white space than there should be, and write it.
_REQUEST = re.compile(
    rf"({TOKEN})[ \t]++(.+?)(?:(?<![ \t])[ \t]++HTTP/[\d.]++[ \t]*+)?", re.IGNORECASE
)
# What HAProxy writes before the digits of a byte that is not ASCII; a percent sign
# means the same.
_HASH = re.compile("#(?=[0-9A-F]{2})")
# What the documented logs of proxies have in place of the rest of a path.
_CUT = re.compile(f"[;%]{MASK}")
# The absolute form of a request's target (RFC 9112 section 3.2.2), without its path.
# Some servers need no host.
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#]*|(?=/))")
_MONTHS = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
# Times that are remembered.
_TIMES = 10_000
# Bytes that are read at once, and characters of the longest line.
_CHUNK, _LONGEST = 1 << 18, 1 << 20
# Seconds without a line after which nothing is known.
_GAP = 3600
# Segments of a prefix that an application may have.
_DEPTH = 16
# What the report has in place of the name of a machine, and at the beginning of a
# digest.
_HOST = "access log"
# How compressed data begin, in a file and in a line.
_GZIP = b"\x1f\x8b"
_COMPRESSED = _GZIP.decode("latin-1")
_MINUTE = re.compile(
    rf"(\d\d)/({'|'.join(_MONTHS)})/(\d{{4}}):(\d\d:\d\d) ([+-]\d{{4}})", re.ASCII
)
_GONE = 410
_UNRECORDED = (
    "the logs have calls that no recorder counted; check that every host records"
)


def add_logs(
    snapshot: Snapshot,
    logs: Iterable[Log],
    plan: Plan,
    log_format: str | None,
    log_prefix: str | None,
    *,
    since: int,
    last: int | None,
    service: str | None,
) -> Snapshot:
    """Return a snapshot with the calls of access logs from ``since`` to ``last`` and
    before the first recorder.
    """
    pattern, prefix = _compile_format(log_format), _clean_prefix(log_prefix)
    end = snapshot.now + DAY if last is None else last + 1
    until = end if snapshot.began is None else min(snapshot.began, end)
    reader = _Reader(plan, pattern, prefix, range(since, end), until)
    began = monotonic()
    for log in logs:
        reader.read(log)
    taken = int((monotonic() - began) * SECOND)
    # Lines may be written while logs are read.
    times = [end - taken for _start, end in reader.spans]
    plans = _find_plans(snapshot, fingerprints(plan), service)
    rows = [
        RecorderRow(
            own,
            _HOST,
            0,
            f"{_HOST} {own}",
            start,
            end,
            skew=0,
            ended=1,
            gone_at=0,
            own_clock=0,
        )
        for own in plans
        for start, end in clip(reader.spans, since, min(until, snapshot.now))
    ]
    calls = defaultdict(Calls, snapshot.calls)
    for day, name, _total, numbers in reader.counts.changes():
        calls[name].add(day, numbers)
    unreadable = f"{count(reader.unreadable, 'line')} of {reader.total:,} in the logs cannot be read"
    return replace(
        snapshot,
        latest=max([snapshot.latest, *times]),
        rows=[*snapshot.rows, *rows],
        plans={
            **snapshot.plans,
            **{f"{_HOST} {own}": known for own, known in plans.items()},
        },
        calls=calls,
        doubts=_list_doubts(reader, plan, snapshot.calls),
        remarks=[unreadable] if reader.unreadable else [],
    )


def _list_doubts(
    reader: "_Reader", plan: Plan, recorded: Iterable[Name]
) -> dict[str, list[str]]:
    """Return why the absence of calls in logs proves nothing, by operation;
    ``recorded`` are calls in the database.
    """
    doubts = {operation.name: list(reader.doubts(operation.name)) for operation in plan}
    clients: defaultdict[str, set[str | None]] = defaultdict(set)
    has_clients = any(
        change.name[2] for change in (*reader.counts.changes(), *reader.later.changes())
    )  # some logs have none
    for name, _caller, client, _source in recorded:
        clients[name] |= {client} if has_clients else {client, None}
    for name in {
        change.name[0]
        for change in reader.later.changes()
        if change.name[2] not in clients[change.name[0]]
    }:
        doubts[name].append(_UNRECORDED)
    return doubts


def _find_plans(
    snapshot: Snapshot, expected: dict[str, str], service: str | None
) -> dict[str, dict[str, str]]:
    """Return the fingerprints of the operations for which each service listens, as far
    as logs show them.
    """
    known: dict[str, set[str]] = {}
    for row in snapshot.rows:
        known.setdefault(row.service, set()).update(snapshot.plans.get(row.plan, ()))
    known = known or {service or "": set(expected)}
    return {
        own: {name: expected[name] for name in expected if name in names}
        for own, names in known.items()
    }


class _Reader:
    """Read logs, and remember the calls of a window before and after a time, the times
    of lines, and doubts.
    """

    def __init__(
        self,
        plan: Plan,
        lines: re.Pattern[str],
        prefix: str | None,
        window: range,
        until: int,
    ) -> None:
        self._lines, self._prefix = lines, prefix
        self._window, self._until = window, until
        self._table, self._retired = table_of(plan), deprecated_operations(plan)
        # Those whose requests show where the application is mounted: their paths begin
        # with a literal.
        self._at_root = {
            operation for operation in plan if _first_segment(operation) is not None
        }
        self._may_be_called = _compile_filter(plan)
        self._segments = {
            each.name: template_shape(each).segments for each in self._retired
        }
        # The literal segments of each operation, or without any the empty string, which
        # every line contains.
        self._literals = {
            name: list(filter(None, own)) or [""]
            for name, own in self._segments.items()
        }
        # The rest of a line may be another line, because some writes are cut. A path
        # alone is no request.
        literals = "|".join(
            re.escape(each) for each in chain("%\\", *self._literals.values())
        )
        start = (
            r'(?>.*?[A-Z][ \t]++(?=[^\s"/]*+/))'
            if "request" in lines.groupindex
            else "[^/]*+/"
        )
        self._may_continue = re.compile(
            rf"{start}.*(?:{literals})", re.DOTALL | re.IGNORECASE
        ).match
        self._on_query, self._hidden = (
            _find_dependent(plan, kind) for kind in ("query", "headers")
        )
        days = (window.stop - window.start) // DAY + 1
        self.counts, self.later = Counts(days * 20_000), Counts(days * 20_000)
        self.total = self.unreadable = self._queries = 0
        self._has_foreign_log, self._is_below = False, not prefix
        self._suspicious: set[str] = set()
        # The lines that would be calls below a prefix only, and the operations of which
        # the present line may be one.
        self._below: Counter[str] = Counter()
        self._below_here: set[str] = set()
        self._spans: list[tuple[int, int]] = []

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The times from the first to the last line, without gaps of more than an hour,
        in microseconds since 1970.
        """
        spans = combine((start, end + _GAP) for start, end in self._spans if start >= 0)
        return [(start * SECOND, (end - _GAP) * SECOND) for start, end in spans]

    def doubts(self, name: str) -> Iterator[str]:
        """Yield why the absence of calls of an operation proves nothing."""
        if self.unreadable * 100 > self.total:
            yield "more than 1 % of the lines in the logs cannot be read: see --log-format"
        elif self._has_foreign_log:
            yield "no line of one of the logs can be read"
        if name in self._suspicious:
            yield "a line in the logs that cannot be read may be a call of it"
        if name in self._below:
            lines = count(self._below[name], "line")
            known = "--log-prefix /PREFIX if the application is mounted there, --log-prefix / if it is at the root"
            yield f"{lines} in the logs would be calls below a prefix only: {known}"
        if not self._is_below:
            yield "no line in the logs is below the prefix: see --log-prefix"
        if name in self._hidden:
            yield "logs do not show the headers that decide which requests match"
        if name in self._on_query and not self._queries:
            yield "no line in the logs has a query, which decides which requests match"

    def read(self, log: Log) -> None:
        """Read a log, or raise ``OSError`` if it cannot be read or is not complete."""
        total, unreadable = self.total, self.unreadable
        opened: Any = (
            Path(log).open("rb", buffering=0)  # noqa: SIM115
            if isinstance(log, str | os.PathLike)
            else nullcontext(log)
        )
        with opened as raw:
            buffered = io.BufferedReader(raw, _CHUNK)
            try:
                is_compressed = buffered.peek(2).startswith(_GZIP)
                for lines in _read_chunks(
                    gzip.GzipFile(fileobj=buffered) if is_compressed else buffered
                ):
                    self._count_lines(lines)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                message = f"{getattr(raw, 'name', 'a log')} is not a complete gzip file: {error}"
                raise OSError(message) from error
            finally:
                buffered.detach()
        self._has_foreign_log |= 0 < self.total - total == self.unreadable - unreadable

    def _count_lines(self, lines: Iterable[str]) -> None:
        search, may_be_called, may_continue = (
            self._lines.search,
            self._may_be_called,
            self._may_continue,
        )
        time, target = (self._lines.groupindex[name] for name in ("time", "target"))
        start = end = -2 * _GAP  # of the lines that were read last
        latest: str | None = ""
        at: int | None = None
        for line in filter(str.strip, lines):
            self.total += 1
            found = search(line)
            if found is not None and found[time] != latest:
                latest = found[time]
                at = _parse_time(latest or "")
            if found is None or at is None:
                self._note_unreadable(line)
                continue
            if not start - _GAP <= at <= end + _GAP:
                self._spans.append((start, end))
                start = end = at
            elif at > end:
                end = at
            elif at < start:
                start = at
            beyond = line[: found.start()] + line[found.end() :]
            if ("/" in beyond and may_continue(beyond)) or _COMPRESSED in beyond:
                self._suspicious |= self._find_literals(beyond)
            sent = found[target]
            path, mark, _query = (sent or "").partition("?")
            self._queries += len(mark)
            self._is_below = self._is_below or bool(
                self._strip(unquote(_ORIGIN.sub("", path), "latin-1"))
            )
            if sent is None or may_be_called(path):
                self._read_request(found, at)
        self._spans.append((start, end))

    def _note_unreadable(self, line: str) -> None:
        """Count a line that is not in the format, and note which operations it may be a
        call of.
        """
        self.unreadable += 1
        self._suspicious |= self._find_literals(line)

    def _find_literals(self, line: str) -> set[str]:
        """Return the operations with a literal segment that a line contains or is cut
        off in, and those without any.
        """
        if _COMPRESSED in line:  # data that may contain all of them
            return set(self._literals)
        spellings = fold(f"{line} {unquote(_unescape(line), 'latin-1')}")
        last = spellings.rpartition("/")[2]
        return {
            name
            for name, literals in self._literals.items()
            if any(
                each in spellings or (last and each.startswith(last))
                for each in literals
            )
        }

    def _read_request(self, found: re.Match[str], at: int) -> None:
        """Read a request, which may not be plain: servers escape characters, and log
        malformed requests too.
        """
        line, method, target = found.string, found["method"], found["target"]
        if method and target is not None:
            self._read_call(found, method, _unescape(target), at)
            return
        is_common = (
            "request" in found.re.groupindex
        )  # in another format, a line may have no method or no target
        request = _unescape(found["request"] or "") if is_common else line
        parts = _REQUEST.fullmatch(request) if is_common else None
        if parts is not None:
            self._read_call(found, parts[1], parts[2], at)
        elif request not in {"", "-"} and (
            not _given(found, "status").startswith("4") or self._find_literals(line)
        ):
            self._note_unreadable(line)

    def _read_call(
        self, found: re.Match[str], method: str, target: str, at: int
    ) -> None:
        """Count a request if it is a call in the window."""
        if at * SECOND not in self._window:
            return
        is_known = False
        self._below_here.clear()
        for sent in dict.fromkeys((_HASH.sub("%", target), target)):
            uri, _mark, query = _ORIGIN.sub("", sent.partition("#")[0]).partition("?")
            environ = {"QUERY_STRING": query}
            self._note_cut(uri, query, found)
            matches = self._find(method, unquote(uri, "latin-1"), environ)
            if is_known:  # nobody knows whether the hash sign begins a fragment or the digits of a byte
                self._suspicious |= {match.operation.name for match in matches}
            elif matches:
                self._count(matches, found, environ, method, at)
            elif (
                "\\" in uri and found["target"]
            ):  # an escape of another format that is not known
                self._suspicious |= self._find_literals(found.string)
            is_known = is_known or bool(matches)
        self._below.update(self._below_here)

    def _note_cut(self, uri: str, query: str, found: re.Match[str]) -> None:
        """Note which operations a request may call in which a server wrote ``REDACTED``
        or an unknown escape.
        """
        if query == MASK or ("\\" in query and found["target"]):
            self._suspicious |= self._on_query & self._find_literals(found.string)
        cut = _CUT.search(uri)
        if cut is None:
            return
        path = unquote(uri[: cut.start()], "latin-1")
        for below in self._strip(path):
            self._suspicious |= self._find_cut(below) | self._find_cut(_simplify(below))
        for below in self._list_below(path):
            first = _fold_segments(below)[0]
            self._below_here |= {
                name
                for name in self._find_cut(below)
                if self._segments[name][0] == first
            }

    def _find_cut(self, path: str) -> set[str]:
        """Return the retired operations that have a path of which only the beginning is
        known.
        """
        *whole, last = _fold_segments(path)
        return {
            name
            for name, segments in self._segments.items()
            if len(whole) < len(segments)
            and all(
                own in {None, sent} for own, sent in zip(segments, whole, strict=False)
            )
            and (segments[len(whole)] or last).startswith(last)
        }

    def _find(self, method: str, path: str, environ: dict[str, str]) -> list[Match]:
        """Return the retired operations that a path may reach."""
        found = [
            match
            for below in self._strip(path)
            for match in self._table.find(method, below, environ)
        ]
        if not path.isascii():
            found += self._decode_twice(method, path, environ)
        if not any(match.operation in self._at_root for match in found):
            for below in self._list_below(path):
                self._below_here |= {
                    match.operation.name
                    for match in self._table.find(method, below, environ)
                }
        return [match for match in found if match.operation in self._retired]

    def _strip(self, path: str) -> list[str]:
        """Return the path after the prefix, in each way in which servers read it;
        nothing if it is elsewhere.
        """
        if not self._prefix:
            return [path]
        size, readings = len(self._prefix), (path, _simplify(path))
        below = dict.fromkeys(
            each[size:]
            for each in readings
            if each[:size].lower() == self._prefix.lower()
        )
        return [each for each in below if each[:1] in {"", "/"}]

    def _list_below(self, path: str) -> list[str]:
        """Return what follows the prefixes that an application may have in a path,
        unless its prefix is known.
        """
        slashes = _SLASH.finditer(path, 1) if self._prefix is None else ()
        return [path[slash.start() :] for slash in islice(slashes, _DEPTH)]

    def _decode_twice(
        self, method: str, path: str, environ: dict[str, str]
    ) -> list[Match]:
        """Return the operations with literals that are not ASCII if a log encodes UTF-8
        twice, as Paste's does.
        """
        found: list[Match | None] = []
        with suppress(UnicodeError):
            found = [
                self._table.match(method, below, environ)
                for below in self._strip(path.encode("latin-1").decode())
            ]
        return [
            match
            for match in found
            if match and not decode_path(match.operation.path).isascii()
        ]

    def _count(
        self,
        matches: list[Match],
        found: re.Match[str],
        environ: dict[str, str],
        method: str,
        at: int,
    ) -> None:
        """Count a call of the operation that the middleware chooses, unless logs do not
        show which one that is.
        """
        session_ids = list_session_ids(environ)
        time = datetime.fromtimestamp(at, UTC)
        caller = clean_label(
            decode_user(_unescape(_given(found, "user")).encode("latin-1")), session_ids
        )
        status = int(sent) if (sent := _given(found, "status")).isdecimal() else 0
        reached = [
            match
            for match in matches
            if not (match.is_lookalike and status in NOT_REACHED)
        ]
        if not reached:
            return
        phases = [
            self._retired[match.operation].phase(time, caller) for match in reached
        ]
        # A closed operation wins over one that is not.
        match, phase = min(
            zip(reached, phases, strict=True),
            key=lambda each: each[1] not in CLOSED_PHASES,
        )
        if match.operation.name in self._hidden:
            return
        is_moved = match.operation.unify_session and not match.is_lookalike
        session = resolve(environ) if is_moved else None
        call = Call(
            operation=match.operation.name,
            method=method,
            status=status or None,
            phase=phase if status == _GONE else Phase.DEPRECATED,
            source=session.source if isinstance(session, SessionCredential) else None,
            client=client_of(_given(found, "agent"), session_ids),
            at=time,
            caller=caller,
        )
        (self.counts if at * SECOND < self._until else self.later).add(call)


def _simplify(path: str) -> str:
    """Return a path without repeated slashes and dot segments."""
    return _SLASHES.sub("/", resolve_dots(_SLASHES.sub("/", path)))


def _fold_segments(path: str) -> list[str]:
    """Return the segments of a path with ASCII letters in lower case, as those of a
    shape are.
    """
    return fold(path).lstrip("/").split("/")


def _given(found: re.Match[str], name: str) -> str:
    """Return a part of a line, empty if the line or its format has none; servers write
    a hyphen then.
    """
    value = found.groupdict().get(name)
    return "" if value is None or value == "-" else value


def _unescape(value: str) -> str:
    """Return a value without the escapes of servers; some write a backslash as it is."""
    return _ESCAPE.sub(
        lambda each: chr(int(each[1], 16)) if each[1] else each[2], value
    )


def _parse_time(time: str) -> int | None:
    """Return the seconds since 1970 of a time in the Common format or in ISO 8601 with
    an offset, or ``None``.
    """
    if time[2:3] != "/":
        return _parse_minute(time)
    minute, second = _parse_minute(time[:17] + time[20:]), time[18:20]
    return minute + int(second) if minute is not None and second.isdecimal() else None


@lru_cache(_TIMES)  # many lines are of the same minute
def _parse_minute(minute: str) -> int | None:
    """Return the seconds since 1970 of a minute such as ``23/Nov/2026:03:41 +0000``, or
    of any time in ISO 8601.
    """
    found = _MINUTE.fullmatch(minute)
    if found is not None:
        day, month, year, rest, offset = found.groups()
        minute = f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{rest}:00{offset}"
    try:
        parsed = datetime.fromisoformat(minute)
        return (
            None if parsed.tzinfo is None else int(parsed.astimezone(UTC).timestamp())
        )
    except (ValueError, OverflowError):
        return None


def _read_chunks(stream: io.BufferedIOBase) -> Iterator[list[str]]:
    """Yield the lines of a stream, many at once; one that is too long is cut."""
    rest = ""
    while (chunk := stream.read(_CHUNK)) != b"":
        if chunk is None:
            message = "the log is a stream that does not wait for data (O_NONBLOCK)"
            raise BlockingIOError(message)
        *lines, rest = (rest + chunk.decode("latin-1")).split("\n")
        if len(rest) > _LONGEST:
            lines, rest = [*lines, rest], ""
        yield lines
    yield [rest]


def _compile_format(log_format: str | None) -> re.Pattern[str]:
    if log_format is None:
        return re.compile(_COMMON)
    expected = f"a regular expression with the named groups {', '.join(_NEEDED)}"
    try:
        pattern = re.compile(log_format)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        message = f"log_format must be {expected}: {error}"
        raise ValueError(message) from error
    require(
        isinstance(log_format, str) and set(_NEEDED) <= pattern.groupindex.keys(),
        "log_format",
        expected,
        log_format,
    )
    return pattern


def _clean_prefix(prefix: str | None) -> str | None:
    is_plain = (
        isinstance(prefix, str)
        and prefix.isprintable()
        and set("?#").isdisjoint(prefix)
    )
    is_path = prefix is None or (is_plain and prefix.startswith("/"))
    require(is_path, "log_prefix", "a path that begins with '/'", prefix)
    return None if prefix is None else decode_path(prefix).rstrip("/")


def _first_segment(operation: Operation) -> str | None:
    """Return the first segment of a path in lower case, or ``None`` if it may be any."""
    return next(iter(template_shape(operation).segments), None)


def _compile_filter(plan: Plan) -> Callable[[str], object]:
    """Return a function that is false for a path, as it is in a line, only if no part
    of it matches an operation.

    Such a path has nothing to decode and nothing that routers read leniently, and the
    first segment of each operation is a literal that is not a segment of it in any
    letter case.
    """
    first = set(map(_first_segment, plan))
    if None in first:
        return lambda _path: True
    literals = "|".join(sorted(re.escape(str(segment)) for segment in first))
    return re.compile(
        rf"^[^/]|[^\x21-\x7e]|[%\\#]|//|/\.|/(?:{literals})(?![^/])", re.IGNORECASE
    ).search


def _find_dependent(plan: Plan, kind: str) -> set[str]:
    """Return the operations whose calls depend on the ``query`` or the ``headers``, by
    conditions of any operation.
    """
    conditional = {operation for operation in plan if getattr(operation, kind)}
    rivals = find_rivals(plan) if conditional else {}
    return {name for name, others in rivals.items() if others & conditional} | {
        each.name for each in conditional
    }
