"""Read the calls in access logs, by the rules of the middleware.

A log proves use and never its absence, so nothing follows from lines that are missing
or cannot be read. Keeps no more than a recorder keeps. Knows neither the store nor
coverage.
"""

import bz2
import lzma
import math
import os
import re
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import unquote

from flask_notifications.observers import client_of
from flask_notifications.plans.operations import (
    NOT_REACHED,
    Match,
    Operation,
    OperationTable,
    Shape,
    decode_path,
    template_shape,
)
from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.plans.policy import CLOSED_PHASES
from flask_notifications.sessions.credential import list_session_ids
from flask_notifications.validation import clean_label, require
from flask_notifications.wording import full_date

from .counts import OTHER, is_probe
from .lines import (
    LineFormat,
    Parts,
    compile_format,
    parse_log_time,
    show,
    split_request,
)
from .times import DAY, to_date, to_datetime

Log: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Key: TypeAlias = tuple[int, str, str | None, str | None]
"""A UTC day since 1970, the name of an operation, a caller and a client."""

SOURCE = "log"
"""The source of a call from a log, in place of that of its session ID."""

# Bytes that are read at once, and characters of the longest line.
_CHUNK = 1 << 18
_LONGEST = 1 << 20
# Requests whose operations are remembered, and names of clients.
_REQUESTS = 10_000
# The status of a closed operation.
_GONE = 410
# Pairs of a caller and a client that are kept by name, for an operation and a day: those
# with a caller, and as many without.
_PAIRS = 1_000

# The absolute form of a target (RFC 9112 section 3.2.2), without its path.
_ORIGIN = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#]*|(?=/))")
# A host before the path, which some servers write.
_HOST = re.compile(r"\A(?:localhost|[^/]*[.:][^/]*)(?=/)")
_ANY_HOST = re.compile(r"\A[^/]+(?=/)")
_SLASHES = re.compile("/+")
# A path that all routers divide in the same way, so that a segment is a literal or any
# value.
_ORDINARY = re.compile(r"(?!.*/[/.])/[!-$&-~]*").fullmatch
# Characters that hide others, and those that some routers ignore.
_MAY_HIDE = re.compile(r"[^\x21-\x7e]|[%\\]").search

_MAY_HAVE_SESSION = re.compile("%|session", re.IGNORECASE).search

_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
}
_LONGEST_START = max(map(len, _DECOMPRESSORS))
_DAMAGES = (OSError, zlib.error, lzma.LZMAError)


@dataclass(slots=True)
class LogCalls:
    """Calls of a day: the first and the last time, and how many there are of each kind.

    ``closed`` are 410s while the plan had closed the operation for the caller.
    """

    first_at: int
    last_at: int
    answered: int = 0
    refused: int = 0
    failed: int = 0
    closed: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of a row in the store."""
        counts = (self.answered, self.refused, self.failed, self.closed)
        return self.first_at, self.last_at, *counts


@dataclass(slots=True)
class LogReading:
    """What logs show of a window; times are microseconds since 1970.

    ``calls`` are those of the listed operations that are not live, without probes.
    ``lines`` were in the window, from ``first_at`` to ``last_at``, and ``others`` before
    or after it. ``unreadable`` lines have no time or no request, and
    ``first_unreadable`` says where the first is and which part of it does not fit.
    ``without_offset`` is the first time that was taken for UTC.
    """

    since: int
    until: int
    calls: dict[Key, LogCalls] = field(default_factory=dict)
    lines: int = 0
    others: int = 0
    unreadable: int = 0
    first_at: int | None = None
    last_at: int | None = None
    first_unreadable: str = ""
    without_offset: str = ""

    def include(self, at: int) -> bool:
        """Return whether a time is in the window, and remember the first and the last
        of these.
        """
        if not self.since <= at <= self.until:
            return False
        self.first_at = at if self.first_at is None else min(at, self.first_at)
        self.last_at = at if self.last_at is None else max(at, self.last_at)
        return True

    @property
    def absence(self) -> str:
        """Say what an operation without a call in the logs is, which proves nothing."""
        if self.first_at is not None and self.last_at is not None:
            days = _describe_days(self.first_at, self.last_at)
            return (
                f"no line of {self.lines:,} {days} matched; "
                "a log cannot show that nobody calls"
            )
        total = self.others + self.unreadable
        return f"no line of {total:,} in the logs is a request of the window"

    @property
    def notes(self) -> list[str]:
        """Say what readers of any result should know."""
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
    """Read the calls in logs from one time until another, both included.

    :param logs: paths of files, of folders or with the wildcards of a shell, or binary
        streams; compressed with gzip, bzip2 or xz, or not.
    :param plan: the plan whose operations are looked for.
    :param since: microseconds since 1970.
    :param until: microseconds since 1970.
    :param log_format: as of ``read_usage``.
    :param log_prefix: as of ``read_usage``.
    :raises ValueError: naming the argument that does not fit.
    :raises OSError: when a file cannot be opened.
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
    """Return the files of a path: itself, those in a folder, or those that fit its
    wildcards, in the order of their first lines.

    :raises FileNotFoundError: when there are none.
    """
    path = Path(log)
    if path.exists() and not path.is_dir():
        return [path]
    if path.is_dir():
        names = path.rglob("*")
    else:
        names = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    files = [name for name in names if name.is_file() and name.name[0] != "."]
    if not files:
        message = f"there is no log {str(path)!r}"
        raise FileNotFoundError(message)
    line_format = compile_format(log_format)
    return sorted(files, key=lambda file: (_find_first_time(file, line_format), file))


class _Reader:
    """Read logs one after the other."""

    def __init__(
        self, line_format: LineFormat, requests: "_Requests", reading: LogReading
    ) -> None:
        self.reading = reading
        self._format = line_format
        self._requests = requests
        self._pairs: Counter[tuple[int, str, bool]] = Counter()

    def read(self, stream: BinaryIO) -> None:
        """Read a stream; the first bytes of compressed data say how to decompress it."""
        name = str(getattr(stream, "name", "a log"))
        number = 0
        try:
            for lines in _read_lines(stream):
                self._read_lines(lines, name, number)
                number += len(lines)
        except _DamagedData as error:
            self._note_unreadable(name, number + 1, str(error))

    def _read_lines(self, lines: list[str], name: str, number: int) -> None:
        """Read lines of a log, of which ``number`` precede them."""
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
            if parts.time != latest:
                latest = parts.time
                at = self._read_time(latest, name)
                is_inside = at is not None and reading.include(at)
            if at is None:
                self._note_unreadable(name, number, f"the time is {show(latest)}")
            elif not is_inside:
                reading.others += 1
            elif (
                parts.target is None or may_match(parts.target)
            ) and not self._read_request(parts, at):
                request = show(parts.target)
                self._note_unreadable(name, number, f"the request is {request}")
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

    def _read_request(self, parts: Parts, at: int) -> bool:
        """Count a request if it is a call, and return whether it is a request.

        Servers also write something for a connection without one, and for what they
        refused to read.
        """
        method, target = parts.method, parts.target
        if target is not None:
            target = self._format.decode(target)
            if not method:
                method, target = split_request(target) or (None, None)
        if not method or target is None:
            status = self._format.details(parts.record).status
            return status is not None and status[:1] in {"", "4"}
        path, query = _split_target(target)
        groups = self._requests.find(method, path, query)
        if not groups:
            return True
        details = self._format.details(parts.record)
        session_ids = []
        if _MAY_HAVE_SESSION(query):
            session_ids = list_session_ids({"QUERY_STRING": query})
        client = _find_client(details.agent or "", tuple(session_ids))
        caller = clean_label(details.user, session_ids) if details.user else None
        if not is_probe(client):
            self._count(groups, details.status, at, caller, client)
        return True

    def _count(
        self,
        groups: list[list[Match]],
        status: str | None,
        at: int,
        caller: str | None,
        client: str | None,
    ) -> None:
        """Count a call of each operation that it may be one of, as far as a log shows."""
        code = int(status) if status and status.isdecimal() else None
        operations: dict[str, bool] = {}
        for group in groups:
            reached = [
                match
                for match in group
                if not (match.is_lookalike and code in NOT_REACHED)
            ]
            operations |= self._requests.choose(reached, at, caller)
        for name, is_closed in operations.items():
            calls = self._find_calls((at // DAY, name, caller, client), at)
            calls.first_at = min(at, calls.first_at)
            calls.last_at = max(at, calls.last_at)
            if status is None or (code is not None and 100 <= code < 400):
                calls.answered += 1
            elif code in {401, 403}:
                calls.refused += 1
            elif code == _GONE and is_closed:
                calls.closed += 1
            else:
                calls.failed += 1

    def _find_calls(self, key: Key, at: int) -> LogCalls:
        """Return the calls of a key, or those of all keys beyond the limit."""
        calls = self.reading.calls
        if key not in calls:
            day, name, caller, _client = key
            kind = (day, name, caller is None)
            self._pairs[kind] += 1
            if self._pairs[kind] > _PAIRS:
                key = (day, name, OTHER, OTHER)
        return calls.setdefault(key, LogCalls(at, at))


class _Requests:
    """Find the operations of a plan that a request in a log may reach.

    A log shows no headers, so a condition on headers is taken for fulfilled, and the
    same request without it is looked for too.
    """

    def __init__(self, plan: Plan, prefix: str) -> None:
        self._prefix = prefix
        self._policies = deprecated_operations(plan)
        # The operations that differ in their headers only, by the name of one of them.
        self._alike: dict[str, list[Operation]] = {}
        self._tables = self._make_tables(plan)
        self._names = {operation.name for operation in self._policies}
        self._has_query = any(operation.query for operation in plan)
        # What a path must contain, unless some operation has parameters only.
        literals = {_find_literal(operation) for operation in self._policies}
        self._needed = None if None in literals else literals
        self._literals = {"", *prefix.split("/")}
        for operation in plan:
            self._literals.update(filter(None, template_shape(operation).segments))
        self._value = "0"
        while self._value in self._literals:
            self._value += "0"
        self._find_cached = lru_cache(_REQUESTS)(self._find)

    def _make_tables(self, plan: Plan) -> list[OperationTable]:
        """Return the table of the operations without headers, and before it one of all,
        in which no header counts.
        """
        live = [operation for operation in plan if operation not in self._policies]
        plain: list[Operation] = []
        alike: dict[Shape, list[Operation]] = {}
        for operation in plan:
            if not operation.headers:
                plain.append(operation)
            elif operation in self._policies:
                shape = template_shape(replace(operation, headers=None))
                alike.setdefault(shape, []).append(operation)
        others = [item for item in plain if template_shape(item) not in alike]
        without_headers = []
        for operations in alike.values():
            without_headers.append(replace(operations[0], headers=None))
            self._alike[operations[0].name] = operations
        tables = []
        if without_headers:
            without_headers += others
            tables.append(OperationTable(without_headers, live=live))
        if plain:
            tables.append(OperationTable(plain, live=live))
        return tables

    def may_match(self, target: str) -> bool:
        """Return false only for a target, as it is in a line, that matches nothing."""
        path = target.partition("?")[0]
        return (
            self._needed is None
            or "/" not in path
            or _MAY_HIDE(path) is not None
            or not self._needed.isdisjoint(path.lower().split("/"))
        )

    def choose(
        self, matches: list[Match], at: int, caller: str | None
    ) -> dict[str, bool]:
        """Return the operations that the middleware chooses, and which of them are
        closed then: a closed operation wins over an open one.
        """
        time = to_datetime(at)
        choice: dict[str, bool] = {}
        for match in matches:
            states = {}
            alike = self._alike.get(match.operation.name, [match.operation])
            for operation in alike:
                phase = self._policies[operation].phase(time, caller)
                states[operation.name] = phase in CLOSED_PHASES
            if not choice or (any(states.values()) and not any(choice.values())):
                choice = states
        return choice

    def find(self, method: str, path: str, query: str) -> list[list[Match]]:
        """Return the matches with operations that are not live, by table; the values of
        their parameters do not count.
        """
        if _ORDINARY(path):
            segments = path.split("/")
            for place, segment in enumerate(segments):
                if segment.lower() not in self._literals:
                    segments[place] = self._value
            path = "/".join(segments)
        return self._find_cached(method, path, query if self._has_query else "")

    def _find(self, method: str, path: str, query: str) -> list[list[Match]]:
        environ = {"QUERY_STRING": query}
        for below in self._list_paths(unquote(path, "latin-1")):
            groups = []
            for table in self._tables:
                found = table.find(method, below, environ)
                matches = [
                    match for match in found if match.operation.name in self._names
                ]
                if matches:
                    groups.append(matches)
            if groups:
                return groups
        return []

    def _list_paths(self, path: str) -> Iterator[str]:
        """Yield the paths below the prefix that a target may be, the likeliest first."""
        paths = [path]
        if path[:1] != "/":
            paths = [_HOST.sub("", path), path, _ANY_HOST.sub("", path)]
        if not self._prefix:
            yield from dict.fromkeys(paths)
            return
        paths += [_SLASHES.sub("/", spelling) for spelling in paths]
        for spelling in dict.fromkeys(paths):
            below = spelling[len(self._prefix) :]
            is_below = spelling[: len(self._prefix)].lower() == self._prefix
            if is_below and below[:1] in {"", "/"}:
                yield below


class _DamagedData(ValueError):
    """Compressed data that end too early or cannot be decompressed."""


def _read_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield the lines of a stream, many at once; one that is too long is cut."""
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
    """Yield the data of a stream, of which the first bytes of compressed data say how
    they are decompressed; several compressed files may follow each other.
    """
    data = _read_chunk(stream).removeprefix(BOM_UTF8)
    while data:
        while len(data) < _LONGEST_START and (more := _read_chunk(stream)):
            data += more
        decompressor = _make_decompressor(data)
        if decompressor is None:
            yield data
            yield from iter(lambda: _read_chunk(stream), b"")
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
        data = data.lstrip(b"\0")


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


def _find_first_time(path: Path, line_format: LineFormat) -> float:
    """Return the time of the first line that can be read in the first block of a file;
    files without one are the last.
    """
    with path.open("rb") as stream, suppress(_DamagedData):
        for line in next(_read_lines(stream)):
            parts = line_format.split(line)
            parsed = parse_log_time(parts.time) if parts and parts.time else None
            if parsed is not None:
                return parsed[0]
    return math.inf


def _split_target(target: str) -> tuple[str, str]:
    """Return the path of a target, perhaps after a host, and its query."""
    uri, _mark, _fragment = target.partition("#")
    path, _mark, query = uri.partition("?")
    return _ORIGIN.sub("", path) or "/", query


@lru_cache(_REQUESTS)
def _find_client(agent: str, session_ids: tuple[str, ...]) -> str | None:
    return client_of(agent, session_ids)


def _find_literal(operation: Operation) -> str | None:
    """Return the longest literal segment of a path, in lower case, if there is one."""
    literals = [literal for literal in template_shape(operation).segments if literal]
    return max(literals, key=len, default=None)


def _clean_prefix(prefix: str | None) -> str:
    is_plain = prefix is None or (isinstance(prefix, str) and prefix.isprintable())
    fits = is_plain and set("?#").isdisjoint(prefix or "")
    fits = fits and (prefix is None or prefix.startswith("/"))
    require(fits, "log_prefix", "a path that begins with '/'", prefix)
    return "" if prefix is None else decode_path(prefix).rstrip("/").lower()


def _describe_days(first_at: int, last_at: int) -> str:
    """Return the days of two times, such as ``from 1 to 31 October``."""
    first, last = to_date(first_at // DAY), to_date(last_at // DAY)
    if first == last:
        return f"on {_day_and_month(last)}"
    if (first.year, first.month) == (last.year, last.month):
        return f"from {first.day} to {_day_and_month(last)}"
    if first.year == last.year:
        return f"from {_day_and_month(first)} to {_day_and_month(last)}"
    return f"from {full_date(first)} to {full_date(last)}"


def _day_and_month(day: date) -> str:
    return full_date(day).removesuffix(f" {day.year}")
