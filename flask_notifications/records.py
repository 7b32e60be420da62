"""From an iterator of records to one whole JSON array, in memory or in a temporary file.

Knows neither where records come from nor who asked. Nothing leaves this room before the array is complete.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import groupby, islice
from operator import methodcaller
from typing import IO, Any, Protocol

from .fields import expect
from .storage import Record, StorageError

Encode = Callable[[list[Any]], bytes]

# Records encoded at a time: enough to make the call cheap, few enough to let other threads run in between.
BATCH = 128

# Bytes written to a temporary file at a time: batches by themselves would take the system twice as long.
_BUFFER = 1_048_576

# As an encoder may write it that puts white space between the brackets and the braces.
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(\{.*\})\s*\]\s*", re.DOTALL)
_OPENING, _CLOSING = ord("{"), ord("}")
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

    def write(self, records: Iterable[Record]) -> tuple[bytes | IO[bytes], int]:
        """Return the whole array and its length in bytes; a file stands at its start and is the caller's to close.

        Raises ``UnserialisableRecord``, ``SpoolUnavailable``, or what the iteration raises; no file is left then.
        """
        iterator = iter(records)
        batch = list(islice(iterator, BATCH))
        count = len(batch)  # before anybody else has the list
        array = self._array(batch, 0)
        if count < BATCH and len(array) <= self._threshold:  # as most answers are
            return array, len(array)
        spool = _Spool(self._threshold)
        try:
            index = 0
            while count:
                spool.add(array)
                index += BATCH
                # One that is not full was the last.
                batch = list(islice(iterator, BATCH)) if count == BATCH else []
                count = len(batch)
                array = self._array(batch, index)
            return spool.finish()
        except BaseException:
            spool.close()
            raise

    def _array(self, batch: list[Record], index: int) -> bytes:
        """Return records as a JSON array; ``index`` is the place of the first one."""
        try:
            return self._expressed(batch) if batch else b"[]"
        except StorageError:  # a record that reads from its storage when it is looked at
            raise
        except Exception as fault:
            raise UnserialisableRecord(index + self._culprit(batch)) from fault

    def _culprit(self, batch: list[Record]) -> int:
        """Return the place of the record that a batch fails at."""
        for place, record in enumerate(batch):
            try:
                self._expressed([record])
            except Exception:  # noqa: BLE001 - the one that was looked for
                return place
        return 0

    def _expressed(self, batch: list[Record]) -> bytes:
        kind = _kind(batch)
        if kind is bytes:
            return _joined(batch)
        if kind is not None or bytes not in map(type, batch):
            return self._encoded(batch, kind)
        runs = groupby(batch, key=lambda record: type(record) is bytes)
        return _concatenated(self._expressed(list(run)) for _ready, run in runs)

    def _encoded(self, batch: list[Record], kind: type | None) -> bytes:
        if self._schema is not None:
            batch = _dumped(self._schema, batch)
            kind = _kind(batch)
        if kind is dict or all(issubclass(each, dict) for each in map(type, batch)):
            return _checked(self._encode(batch))
        # Only the result tells whether another kind of record becomes an object, so each is looked at by itself.
        plain = (dict(record) if isinstance(record, Mapping) else record for record in batch)
        return _concatenated(_checked(self._encode([record])) for record in plain)


def _kind(records: list[Any]) -> type | None:
    """Return the type that all of them have, or ``None``."""
    kind = type(records[0])
    return kind if list(map(type, records)).count(kind) == len(records) else None


def _dumped(schema: Schema, batch: list[Record]) -> list[Any]:
    count = len(batch)
    dumped: list[Any] = schema.dump(batch, many=True)
    if len(dumped) != count:
        message = f"schema must dump every record, not {len(dumped)} of {count}"
        raise ValueError(message)
    return dumped


def _joined(texts: list[bytes]) -> bytes:
    """Join the texts of JSON objects, of which only the outer braces are looked at."""
    if not _are_objects(texts) and not _are_objects(list(map(_stripped, texts))):
        message = "a record given as bytes must be the text of one JSON object"
        raise ValueError(message)
    # The brackets first: around the whole, they would take another copy of it.
    texts[0] = b"[" + texts[0]
    texts[-1] += b"]"
    return b",".join(texts)


def _are_objects(texts: list[bytes]) -> bool:
    return not [text for text in texts if text[0] != _OPENING or text[-1] != _CLOSING]


def _checked(array: bytes) -> bytes:
    """Return what an encoder made of one or more records, when it looks like a JSON array of objects."""
    if type(array) is bytes and array[:2] == b"[{" and array[-2:] == b"}]":
        return array
    spaced = _ARRAY_OF_OBJECTS.fullmatch(array)
    if spaced is None:
        message = "encode must return the bytes of a JSON array of objects"
        raise TypeError(message)
    return b"[%b]" % spaced[1]


def _concatenated(arrays: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",".join(array[1:-1] for array in arrays)


class _Spool:
    """Make one array of several, in memory, and in a temporary file once it has more than ``threshold`` bytes."""

    __slots__ = ("_file", "_length", "_memory", "_separator", "_threshold")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._length = 0
        self._separator = b"["
        # Grows in place: chunks that are joined at the end would take the memory twice, and the time for it. Sent as
        # they are, they would go back to the system after each answer, and the next would fault on each of its pages.
        self._memory = BytesIO()
        self._file: IO[bytes] | None = None

    def add(self, array: bytes) -> None:
        self._put(self._separator, memoryview(array)[1:-1])
        self._separator = b","

    def finish(self) -> tuple[bytes | IO[bytes], int]:
        self._put(b"]" if self._separator == b"," else b"[]")
        if self._file is None:
            return self._memory.getvalue(), self._length
        with _spooling():
            self._file.flush()
            self._file.seek(0)
        return self._file, self._length

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # closing writes what is buffered, and fails where writing failed
                self._file.close()

    def _put(self, *chunks: bytes | memoryview) -> None:
        self._length += sum(map(len, chunks))
        if self._length <= self._threshold:
            self._memory.writelines(chunks)
            return
        with _spooling():
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - outlives this call by design
                self._file.write(self._memory.getbuffer())
                self._memory = BytesIO()
            self._file.writelines(chunks)


@contextlib.contextmanager
def _spooling() -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        message = "the temporary file cannot be written"
        raise SpoolUnavailable(message) from fault
