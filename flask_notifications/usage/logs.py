"""Read the calls in access logs, by the rules of the middleware.

A log proves use and never its absence, so nothing follows from lines that are missing
or unreadable. Keeps no more of a call than a recorder does. Knows neither the store nor
coverage.
"""

import bz2
import lzma
import math
import os
import re
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import unquote

from flask_notifications.observers import client_of
from flask_notifications.plans.conditions import environ_key, example_values
from flask_notifications.plans.decision import decide
from flask_notifications.plans.operations import (
    NOT_REACHED,
    Match,
    OperationTable,
    decode_path,
)
from flask_notifications.plans.plan import Plan
from flask_notifications.plans.policy import DeprecationPolicy, Phase
from flask_notifications.sessions.credential import list_session_ids
from flask_notifications.validation import clean_label, require
from flask_notifications.wording import full_date

from .counts import Change, Counts, is_probe, kind_of
from .lines import (
    Details,
    LineFormat,
    compile_format,
    parse_log_time,
    show,
    split_request,
)
from .times import DAY, to_date, to_datetime

Log: TypeAlias = "str | os.PathLike[str] | BinaryIO"

SOURCE = "log"
"""The source of a call from a log, instead of the source of its session ID."""

# Bytes that are read at once, and characters of the longest line.
_CHUNK = 1 << 18
_LONGEST = 1 << 20
# Requests whose operations are cached, and values of ``User-Agent``.
_REQUESTS = 10_000
# The status of a closed operation.
_GONE = 410

# The absolute form of a target (RFC 9112 section 3.2.2), without its path.
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#]*|(?=/))")
# A host before the path, which some servers write.
_HOST = re.compile(r"\A(?:localhost|[^/]*[.:][^/]*)(?=/)")
_ANY_HOST = re.compile(r"\A[^/]+(?=/)")
_SLASHES = re.compile("/+")
# A path that all routers split in the same way: a segment is a literal of the plan, or
# its value does not matter.
_ORDINARY = re.compile(r"(?!.*/[/.])/[!-$&-~]*").fullmatch
# Characters that may encode others, and those that some routers ignore.
_MAY_HIDE = re.compile(r"[^\x21-\x7e]|[%\\#]").search

# Cached only without session IDs, so that none stays in memory.
_find_client = lru_cache(_REQUESTS)(partial(client_of, session_ids=()))
_MAY_HAVE_SESSION = re.compile("%|session", re.IGNORECASE).search

_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
}
_LONGEST_START = max(map(len, _DECOMPRESSORS))
_DAMAGES = (OSError, zlib.error, lzma.LZMAError)


@dataclass(slots=True)
class LogReading:
    """What logs show of a window; times are microseconds since 1970.

    ``counts`` has the calls of deprecated operations, without probes. A 410 counts as
    ``CLOSED`` only if the plan had closed the operation for the caller at that time.
    ``lines`` is the number of lines in the window, from ``first_at`` to ``last_at``,
    and ``others`` that of lines before or after it. ``unreadable`` lines have no time
    or no request; ``first_unreadable`` says where the first one is and which part does
    not fit. ``without_offset`` is the first time that was taken for UTC.
    """

    since: int
    until: int
    counts: Counts = field(default_factory=partial(Counts, sys.maxsize))
    lines: int = 0
    others: int = 0
    unreadable: int = 0
    first_at: int = sys.maxsize
    last_at: int = -sys.maxsize
    first_unreadable: str = ""
    without_offset: str = ""

    @property
    def calls(self) -> list[Change]:
        """The calls by day, operation, caller and client."""
        return self.counts.changes()

    def include(self, at: int) -> bool:
        """Return whether a time is in the window, and update the first and the last."""
        if not self.since <= at <= self.until:
            return False
        self.first_at = min(at, self.first_at)
        self.last_at = max(at, self.last_at)
        return True

    @property
    def absence(self) -> str:
        """Explain that no call in the logs proves nothing."""
        if self.first_at <= self.last_at:
            days = _describe_days(self.first_at, self.last_at)
            return (
                f"no line of {self.lines:,} {days} matched; "
                "a log cannot show that nobody calls"
            )
        total = self.others + self.unreadable
        return f"no line of {total:,} in the logs is a request of the window"

    @property
    def notes(self) -> list[str]:
        """Say what readers should know, whatever the result is."""
        notes = []
        if self.unreadable:
            total = self.lines + self.others + self.unreadable
            notes.append(
                f"{self.unreadable:,} of {total:,} lines in the logs cannot be read, "
                f"the first is {self.first_unreadable}"
            )
        if self.without_offset:
            notes.append(
                "times without an offset were taken for UTC, "
                f"the first is {self.without_offset}"
            )
        return notes


def read_logs(
    logs: Iterable[Log],
    plan: Plan,
    since: int,
    until: int,
    *,
    log_format: str | None = None,
    log_prefix: str | None = None,
) -> LogReading:
    """Read the calls in logs between two times, both included.

    :param logs: paths of files, of folders or with the wildcards of a shell, or binary
        streams; compressed with gzip, bzip2 or xz, or not.
    :param plan: the plan whose deprecated operations are counted.
    :param since: microseconds since 1970.
    :param until: microseconds since 1970.
    :param log_format: as for ``read_usage``.
    :param log_prefix: as for ``read_usage``.
    :raises ValueError: an argument does not fit; the message names it.
    :raises OSError: a file cannot be opened.
    """
    line_format = compile_format(log_format)
    requests = _Requests(plan, _clean_prefix(log_prefix))
    reader = _Reader(line_format, requests, LogReading(since, until))
    paths: set[Path] = set()
    for log in logs:
        if not isinstance(log, str | os.PathLike):
            expected = "a list of paths or binary streams"
            require(hasattr(log, "read"), "logs", expected, log)
            reader.read(log)
            continue
        for path in find_files(log, log_format):
            if path.resolve() not in paths:
                paths.add(path.resolve())
                with path.open("rb") as stream:
                    reader.read(stream)
    return reader.reading


def find_files(log: "str | os.PathLike[str]", log_format: str | None) -> list[Path]:
    """Return the log files that a path means.

    These are the file itself, the files in a folder, or those that match wildcards, in
    the order of their first lines. Hidden files are left out.

    :raises FileNotFoundError: there are none.
    """
    path = Path(log)
    if path.is_dir():
        names = path.rglob("*")
    elif path.exists():
        return [path]
    else:
        names = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    files = [name for name in names if name.is_file() and name.name[0] != "."]
    if not files:
        message = f"there is no log {str(path)!r}"
        raise FileNotFoundError(message)
    line_format = compile_format(log_format)
    return sorted(files, key=lambda file: (_find_first_time(file, line_format), file))


def _find_first_time(path: Path, line_format: LineFormat) -> float:
    """Return the time of the first readable line in the first block of a file.

    It is infinite without such a line, so that the file becomes the last one.
    """
    with path.open("rb") as stream, suppress(_DamagedData):
        for line in next(_read_lines(stream)):
            parts = line_format.split(line)
            parsed = parse_log_time(parts[0] or "") if parts is not None else None
            if parsed is not None:
                return parsed[0]
    return math.inf


class _Reader:
    """Read logs one after the other."""

    def __init__(
        self, line_format: LineFormat, requests: "_Requests", reading: LogReading
    ) -> None:
        self.reading = reading
        self._format = line_format
        self._requests = requests

    def read(self, stream: BinaryIO) -> None:
        """Read a stream, which may be compressed."""
        name = str(getattr(stream, "name", "a log"))
        number = 0
        try:
            for lines in _read_lines(stream):
                self._read_lines(lines, name, number)
                number += len(lines)
        except _DamagedData as error:
            self._note_unreadable(name, number + 1, str(error))

    def _read_lines(self, lines: list[str], name: str, number: int) -> None:
        """Read the lines of a log that follow its first ``number`` lines."""
        split, may_match = self._format.split, self._requests.may_match
        reading = self.reading
        latest: str | None = ""
        at: int | None = None
        is_inside = False
        for line in lines:
            number += 1
            parts = split(line)
            if parts is None:
                if line.strip() and not line.startswith("#"):  # a W3C log's header
                    self._note_unreadable(name, number, self._format.explain(line))
                continue
            time, method, target, record = parts
            if time != latest:
                latest = time
                at = self._read_time(latest, name)
                is_inside = at is not None and reading.include(at)
            if at is None:
                self._note_unreadable(name, number, f"the time is {show(latest)}")
            elif not is_inside:
                reading.others += 1
            # Most targets match nothing, so most requests need not be read.
            elif (target is None or may_match(target)) and not self._read_request(
                method, target, record, at
            ):
                self._note_unreadable(name, number, f"the request is {show(target)}")
            else:
                reading.lines += 1

    def _read_time(self, time: str | None, name: str) -> int | None:
        parsed = parse_log_time(time or "")
        if parsed is None:
            return None
        at, has_offset = parsed
        if not has_offset and not self.reading.without_offset:
            self.reading.without_offset = f"{show(time)} in {name}"
        return at

    def _note_unreadable(self, name: str, number: int, part: str) -> None:
        if not self.reading.unreadable:
            self.reading.first_unreadable = f"line {number:,} of {name}: {part}"
        self.reading.unreadable += 1

    def _read_request(
        self, method: str | None, target: str | None, record: Any, at: int
    ) -> bool:
        """Count a request if it is a call, and return whether its line is readable.

        A line without a request is readable if its status is a hyphen or begins with 4:
        servers also log connections without a request, and requests that they could not
        parse.
        """
        if target is not None:
            target = self._format.decode(target)
            if not method:
                method, target = split_request(target) or (None, None)
        if not method or target is None:
            status = self._format.details(record).status
            return status is not None and status[:1] in {"", "4"}
        path, query = _split_target(target)
        groups = self._requests.find(method, path, query)
        if groups:
            self._count(groups, self._format.details(record), query, at)
        return True

    def _count(
        self, groups: list[list[Match]], details: Details, query: str, at: int
    ) -> None:
        """Count a call of each operation that it may be for, as far as a log shows."""
        session_ids: list[str] = []
        agent = details.agent or ""
        client = _find_client(agent)
        if _MAY_HAVE_SESSION(query):
            session_ids = list_session_ids({"QUERY_STRING": query})
            client = client_of(agent, session_ids)
        if is_probe(client):
            return
        caller = clean_label(details.user, session_ids)
        status = _read_status(details.status)
        phases = self._requests.choose(groups, status, at, caller)
        for operation, phase in phases.items():
            kind = kind_of(status, phase if status == _GONE else None)
            self.reading.counts.count((operation, caller, client, SOURCE), at, kind)


class _Requests:
    """Find the operations of a plan that a request in a log may reach.

    A log shows no headers. A request is therefore looked up several times: with headers
    that fit each operation with conditions on them, and among the operations without
    such conditions.
    """

    def __init__(self, plan: Plan, prefix: str) -> None:
        self._prefix = prefix
        self._policies: dict[str, DeprecationPolicy | None] = {}
        for operation, policy in plan.items():
            if policy is not None:
                self._policies[operation.name] = policy
        self._lookups = _list_lookups(plan)
        self._has_query = any(operation.query for operation in plan)
        # For each deprecated operation, the longest literal of its path; ``None`` if it
        # has parameters only. A path that contains none of them cannot match.
        self._needed: set[str | None] = set()
        self._literals = {"", *prefix.split("/")}
        for operation, policy in plan.items():
            literals = [part for part in operation.template.shape.segments if part]
            self._literals.update(literals)
            if policy is not None:
                self._needed.add(max(literals, key=len, default=None))
        # In place of the values of parameters: a segment that is no literal.
        self._value = "0"
        while self._value in self._literals:
            self._value += "0"
        self._find_cached = lru_cache(_REQUESTS)(self._find)

    def may_match(self, target: str) -> bool:
        """Return ``False`` if a target, as the log has it, surely matches nothing."""
        path = target.partition("?")[0]
        if None in self._needed or "/" not in path or _MAY_HIDE(path) is not None:
            return True
        return not self._needed.isdisjoint(path.lower().split("/"))

    def choose(
        self, groups: list[list[Match]], status: int | None, at: int, caller: str | None
    ) -> dict[str, Phase | None]:
        """Return the operations that the middleware would choose, and their phases.

        :param groups: the matches, as ``find`` returns them.
        """
        time = to_datetime(at)
        phases = {}
        for matches in groups:
            reached = matches
            if status in NOT_REACHED:
                reached = [match for match in matches if not match.is_lookalike]
            if reached:
                match, _policy, phase = decide(reached, self._policies, time, caller)
                phases[match.operation.name] = phase
        return phases

    def find(self, method: str, path: str, query: str) -> list[list[Match]]:
        """Return the matches with deprecated operations, in one list for each lookup.

        The values of their parameters may be wrong: they are replaced where that
        changes no match, so that the cache has few different paths.
        """
        if _ORDINARY(path):
            segments = path.split("/")
            for place, segment in enumerate(segments):
                if segment.lower() not in self._literals:
                    segments[place] = self._value
            path = "/".join(segments)
        return self._find_cached(method, path, query if self._has_query else "")

    def _find(self, method: str, path: str, query: str) -> list[list[Match]]:
        for below in self._list_paths(unquote(path, "latin-1")):
            groups = []
            for table, headers in self._lookups:
                environ = {**headers, "QUERY_STRING": query}
                matches = []
                for match in table.find(method, below, environ):
                    if match.operation.name in self._policies:
                        matches.append(match)
                if matches:
                    groups.append(matches)
            if groups:
                return groups
        return []

    def _list_paths(self, path: str) -> Iterator[str]:
        """Yield the paths below the prefix that a target may mean, likeliest first."""
        paths = [path]
        if path[:1] != "/":  # perhaps a host precedes the path
            paths = [_HOST.sub("", path), path, _ANY_HOST.sub("", path)]
        if self._prefix:
            paths += [_SLASHES.sub("/", spelling) for spelling in paths]
        for spelling in dict.fromkeys(paths):
            below = spelling[len(self._prefix) :]
            is_below = spelling.lower().startswith(self._prefix)
            if not self._prefix or (is_below and below[:1] in {"", "/"}):
                yield below


def _list_lookups(plan: Plan) -> list[tuple[OperationTable, dict[str, str]]]:
    """Return the lookups for a request: each is a table and the headers to assume.

    A live operation with conditions on headers is in no table, because nothing in a log
    shows that they hold.
    """
    live = [operation for operation, policy in plan.items() if policy is None]
    listed = [item for item in plan if plan[item] is not None or not item.headers]
    plain = [operation for operation in listed if not operation.headers]
    lookups = []
    if len(listed) > len(plain):
        table = OperationTable(listed, live=live)
        for operation in listed:
            headers = {}
            for name, value in example_values(operation.headers, "any").items():
                headers[environ_key(name)] = value
            if operation.headers and (table, headers) not in lookups:
                lookups.append((table, headers))
    if plain:
        lookups.append((OperationTable(plain, live=live), {}))
    return lookups


class _DamagedData(ValueError):
    """Raised if compressed data end too early or cannot be decompressed."""


def _read_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield the lines of a stream in large lists; cut lines that are too long."""
    rest = ""
    for block in _read_blocks(stream):
        text = rest + block.decode("latin-1")
        *lines, rest = text.replace("\r\n", "\n").split("\n")
        if len(rest) > _LONGEST:
            lines.append(rest)
            rest = ""
        yield lines
    yield [rest]


def _read_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the data of a stream, decompressed.

    The first bytes show the kind of compression, if there is any. A stream may consist
    of several compressed files.
    """
    data = _read_chunk(stream).removeprefix(BOM_UTF8)
    while data:
        while len(data) < _LONGEST_START and (more := _read_chunk(stream)):
            data += more
        decompressor = _make_decompressor(data)
        if decompressor is None:
            while data:
                yield data
                data = _read_chunk(stream)
            return
        while data and not decompressor.eof:
            try:
                yield decompressor.decompress(data)
            except _DAMAGES as error:
                message = f"data that cannot be decompressed ({error})"
                raise _DamagedData(message) from error
            data = decompressor.unused_data or _read_chunk(stream)
        if not decompressor.eof:
            message = "compressed data that end too early"
            raise _DamagedData(message)
        data = data.lstrip(b"\0")  # padding between files


def _read_chunk(stream: BinaryIO) -> bytes:
    chunk: bytes | None = stream.read(_CHUNK)
    if chunk is None:
        message = "the log is a stream that does not wait for data (O_NONBLOCK)"
        raise BlockingIOError(message)
    return chunk


def _make_decompressor(data: bytes) -> Any:
    for start, make in _DECOMPRESSORS.items():
        if data.startswith(start):
            return make()
    return None


def _split_target(target: str) -> tuple[str, str]:
    """Return the path of a target, which may still begin with a host, and its query."""
    uri, _mark, _fragment = target.partition("#")
    path, _mark, query = uri.partition("?")
    return _ORIGIN.sub("", path) or "/", query


def _read_status(status: str | None) -> int | None:
    """Return the status of a response as a number, or ``None`` if there was none.

    If the log has no statuses, assume that every request succeeded.
    """
    if status is None:
        return 200
    start = status[:3]  # of `200 OK`, `200.0` or `401.2`
    if start.isdecimal() and start >= "100":
        return int(start)
    return None


def _clean_prefix(prefix: str | None) -> str:
    if prefix is None:
        return ""
    fits = isinstance(prefix, str) and prefix.isprintable() and prefix[:1] == "/"
    fits = fits and set("?#").isdisjoint(prefix)
    require(fits, "log_prefix", "a path that begins with '/'", prefix)
    return decode_path(prefix).rstrip("/").lower()


def _describe_days(first_at: int, last_at: int) -> str:
    """Describe the days from one time to another, such as ``from 1 to 31 October``."""
    first, last = to_date(first_at // DAY), to_date(last_at // DAY)
    day_and_month = full_date(last).removesuffix(f" {last.year}")
    if first == last:
        return f"on {day_and_month}"
    if (first.year, first.month) == (last.year, last.month):
        return f"from {first.day} to {day_and_month}"
    return f"from {full_date(first)} to {full_date(last)}"
