"""From an iterator of records to one whole JSON array, in memory or in a temporary file.

Knows neither where records come from nor who asked. Nothing leaves this room before the array is complete.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from operator import itemgetter, methodcaller
from typing import Any, BinaryIO, Protocol

from .fields import expect
from .storage import Record, StorageError

Encode = Callable[[list[Any]], bytes]

# Records encoded at a time: enough to make the call cheap, few enough to let other threads run in between.
BATCH = 128

# As an encoder may write it that puts white space between the brackets and the braces.
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(\{.*\})\s*\]\s*", re.DOTALL)
_DICT = {dict}
_BRACES = {(ord("{"), ord("}"))}
_outer_bytes = itemgetter(0, -1)
# RFC 8259 section 2: what may stand around a JSON text.
_stripped = methodcaller("strip", b" \t\n\r")


class Schema(Protocol):
    """What is asked of a marshmallow schema."""

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:
        """Return objects as mappings of plain values."""


class UnserialisableRecord(Exception):
    """A record cannot be expressed as a JSON object. ``index`` is its place in the array, from 0."""

    def __init__(self, index: int) -> None:
        super().__init__(f"record {index} cannot be expressed as a JSON object")
        self.index = index


class SpoolUnavailable(Exception):
    """The temporary file for a large array cannot be created or written."""


class ArrayWriter:
    """Write records as one JSON array.

    ``encode`` takes a list of records and returns the bytes of a JSON array; ``schema``, where given, dumps records to
    mappings first. Up to ``spool_threshold`` bytes the array is kept in memory, a larger one in a temporary file in
    ``TMPDIR``. Raises ``ValueError`` naming the argument that does not fit. Not checked: that ``encode`` writes each of
    several mappings as an object; only the braces at both ends of a batch are looked at.
    """

    __slots__ = ("_encode", "_schema", "_threshold")

    def __init__(self, *, encode: Encode, schema: Schema | None, spool_threshold: int) -> None:
        expect(callable(encode), "encode", "a function from a list of records to the bytes of a JSON array", encode)
        expect(
            schema is None or (not isinstance(schema, type) and callable(getattr(schema, "dump", None))),
            "schema",
            "an instance of a marshmallow schema",
            schema,
        )
        expect(
            type(spool_threshold) is int and spool_threshold >= 0,
            "spool_threshold",
            "a number of bytes, 0 or more",
            spool_threshold,
        )
        self._encode = encode
        self._schema = schema
        self._threshold = spool_threshold

    def write(self, records: Iterable[Record]) -> tuple[bytes | BinaryIO, int]:
        """Return the whole array and its length in bytes; a file stands at its start and is the caller's to close.

        Raises ``UnserialisableRecord``, ``SpoolUnavailable``, or what the iteration raises; no file is left then.
        """
        arrays = self._arrays(records)
        first = next(arrays, b"[]")
        others = list(islice(arrays, 1))
        if not others and len(first) <= self._threshold:
            return first, len(first)  # as most answers are: one array, which leaves as it was encoded
        spool = _Spool(self._threshold)
        try:
            for array in chain((first, *others), arrays):
                spool.add(array)
            return spool.finish()
        except BaseException:
            spool.close()
            raise

    def _arrays(self, records: Iterable[Record]) -> Iterator[bytes]:
        """Yield the records as JSON arrays, none of them empty, a bounded number of records at a time."""
        iterator = iter(records)
        index = 0
        while batch := list(islice(iterator, BATCH)):
            try:
                yield from self._expressed(batch)
            except StorageError:  # a record that reads from its storage when it is looked at
                raise
            except Exception as fault:
                raise UnserialisableRecord(index + self._culprit(batch)) from fault
            if len(batch) < BATCH:  # that was the last one
                return
            index += BATCH

    def _culprit(self, batch: list[Record]) -> int:
        """Return the place of the record that a batch fails at."""
        for place, record in enumerate(batch):
            try:
                self._expressed([record])
            except Exception:  # noqa: BLE001 - the one that was looked for
                return place
        return 0

    def _expressed(self, batch: list[Record]) -> list[bytes]:
        kinds = set(map(type, batch))
        if bytes not in kinds:
            return self._encoded(batch, kinds)
        if len(kinds) == 1:
            return [_joined(batch)]
        runs = groupby(batch, key=lambda record: type(record) is bytes)
        return [array for _ready, run in runs for array in self._expressed(list(run))]

    def _encoded(self, batch: list[Record], kinds: set[type]) -> list[bytes]:
        if self._schema is not None:
            batch = _dumped(self._schema, batch)
            kinds = set(map(type, batch))
        if kinds == _DICT or all(issubclass(kind, dict) for kind in kinds):
            return [_checked(self._encode(batch))]
        # Only the result tells whether another kind of record becomes an object, so each is looked at by itself.
        plain = (dict(record) if isinstance(record, Mapping) else record for record in batch)
        return [_checked(self._encode([record])) for record in plain]


def _dumped(schema: Schema, batch: list[Record]) -> list[Any]:
    dumped: list[Any] = schema.dump(batch, many=True)
    if len(dumped) != len(batch):
        message = f"schema must dump every record, not {len(dumped)} of {len(batch)}"
        raise ValueError(message)
    return dumped


def _joined(texts: list[bytes]) -> bytes:
    """Return the texts of JSON objects as an array; only their outer braces are looked at."""
    if set(map(_outer_bytes, texts)) != _BRACES and set(map(_outer_bytes, map(_stripped, texts))) != _BRACES:
        message = "a record given as bytes must be the text of one JSON object"
        raise ValueError(message)
    return b"[%b]" % b",".join(texts)


def _checked(array: bytes) -> bytes:
    """Return what an encoder wrote, without white space around it, after a look whether it is an array of objects."""
    if array[:2] == b"[{" and array[-2:] == b"}]":
        return bytes(array)
    if not _ARRAY_OF_OBJECTS.fullmatch(array):
        message = "encode must return the bytes of a JSON array of objects"
        raise TypeError(message)
    return bytes(array).strip()


class _Spool:
    """Make one array out of several, in memory, and in a temporary file once it has more than ``threshold`` bytes."""

    __slots__ = ("_chunks", "_file", "_last", "_length", "_threshold")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._last: bytes | memoryview = b""
        self._chunks: list[bytes | memoryview] = []
        self._file: BinaryIO | None = None
        self._length = 0

    def add(self, array: bytes) -> None:
        """Add an array that is not empty."""
        if not self._last:
            self._last = array
            return
        self._put(self._last[:-1])  # it goes on, where it would have ended
        self._put(b",")
        self._last = memoryview(array)[1:]

    def finish(self) -> tuple[bytes | BinaryIO, int]:
        """Return the whole array and its length."""
        self._put(self._last)
        if self._file is None:
            return b"".join(self._chunks), self._length
        with _spooling():
            self._file.flush()
            self._file.seek(0)
        return self._file, self._length

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # closing writes what is buffered, and fails where writing failed
                self._file.close()

    def _put(self, chunk: bytes | memoryview) -> None:
        self._chunks.append(chunk)
        self._length += len(chunk)
        if self._length > self._threshold:
            with _spooling():
                if self._file is None:
                    self._file = tempfile.TemporaryFile()  # noqa: SIM115 - outlives this call by design
                self._file.writelines(self._chunks)
            self._chunks.clear()


@contextlib.contextmanager
def _spooling() -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        message = "the temporary file cannot be written"
        raise SpoolUnavailable(message) from fault
