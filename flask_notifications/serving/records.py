"""Write records as one complete JSON array, in memory or in a temporary file.

Knows nothing of the storage or of the caller. Nothing leaves this module before the
array is complete.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import groupby, islice
from typing import IO, Any, Protocol

from flask_notifications.validation import require

from .storage import Record, StorageError

Encode = Callable[[list[Any]], bytes]

# Records that are encoded in one call: enough to make the call cheap, few enough to let
# other threads run in between.
BATCH = 128

# Bytes. A list is encoded in one call if its array is likely to be smaller. That takes
# less than the 5 ms after which the interpreter switches threads, and a third less time
# than batches, whose arrays are copied to join them.
_ONE_CALL = 4_194_304
# At least so many records, spread over a list, show how large its array will be.
_SAMPLE = 16

# Bytes that a temporary file buffers: writing batch by batch would take twice as long.
_BUFFER = 1_048_576

# An array of objects as an encoder may write it, with white space around the brackets.
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(\{.*\})\s*\]\s*", re.DOTALL)
_OPENING, _CLOSING = b"{}"  # as numbers, because an index into bytes gives one
# RFC 8259 section 2: the white space that may surround a JSON text.
_WHITE_SPACE = b" \t\n\r"


class Schema(Protocol):
    """The part of a marshmallow schema that is used here."""

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:
        """Return objects as mappings of plain values."""


class UnserialisableRecord(Exception):
    """The record at an index, from 0, cannot be expressed as a JSON object."""

    def __init__(self, index: int, record: object) -> None:
        super().__init__(
            f"record {index} of type {type(record).__qualname__} cannot be expressed "
            "as a JSON object; return mappings, dataclasses or bytes that encode "
            "accepts, or set schema"
        )
        self.index = index


class SpoolUnavailable(Exception):
    """The temporary file for a large array cannot be created or written."""


class ArrayWriter:
    """Write records as one JSON array.

    Not checked: that ``encode`` writes each mapping as an object. Only the first and
    the last brace of its result are.
    """

    __slots__ = ("_encode", "_schema", "_threshold")

    def __init__(
        self,
        *,
        encode: Encode,
        schema: Schema | type[Schema] | None,
        spool_threshold: int,
    ) -> None:
        require(
            callable(encode),
            "encode",
            "a function from a list of records to a JSON array in bytes",
            encode,
        )
        can_dump = callable(getattr(schema, "dump", None))
        require(
            schema is None or can_dump,
            "schema",
            "a marshmallow schema, as a class or an instance",
            schema,
        )
        require(
            type(spool_threshold) is int and spool_threshold >= 0,
            "spool_threshold",
            "a number of bytes, 0 or more",
            spool_threshold,
        )
        self._encode = encode
        self._schema = schema() if isinstance(schema, type) else schema
        self._threshold = spool_threshold

    def write(self, records: Iterable[Record]) -> tuple[bytes | IO[bytes], int]:
        """Return the complete array, as bytes or as a file, and its length in bytes.

        The file is positioned at its start, and the caller closes it. After an
        exception there is none. The caller also closes the records.

        :raises UnserialisableRecord: a record cannot be expressed as a JSON object.
        :raises SpoolUnavailable: the temporary file cannot be written.
        :raises Exception: the exceptions of the iteration pass.
        """
        if self._fits_one_call(records):
            batch = list(records)
            array = self._encode_batch(batch, 0) if batch else b"[]"
            if len(array) <= self._threshold:
                return array, len(array)
            return self._store([array])
        return self._store(self._encode_batches(records))

    def _fits_one_call(self, records: Iterable[Record]) -> bool:
        if not isinstance(records, (list, tuple)):
            return False
        if len(records) <= BATCH:
            return True
        if self._schema is not None:  # what it will dump may have any size
            return False
        sample = records[:: len(records) // _SAMPLE]
        size = 0
        try:
            # Not encoded, because that would exhaust a generator in a record.
            for record in sample:
                size += len(repr(record))
        except Exception:  # noqa: BLE001 - encoding in batches reports the record
            return False
        return size * len(records) < _ONE_CALL * len(sample)

    def _store(self, arrays: Iterable[bytes]) -> tuple[bytes | IO[bytes], int]:
        """Join arrays in memory, or in a temporary file above the threshold."""
        # The buffer grows in place. A list of chunks would take twice the memory when
        # it is joined. Sent as separate chunks, their memory would return to the system
        # after each response, and the next response would wait for every page of it.
        memory, file, length = BytesIO(), None, 0
        try:
            for chunk in _join_chunks(arrays):
                length += len(chunk)
                if length <= self._threshold:
                    memory.write(chunk)
                    continue
                with _spool_errors():
                    if file is None:
                        file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - outlives this call by design
                        file.write(memory.getbuffer())
                        memory = BytesIO()
                    file.write(chunk)
            if file is None:
                return memory.getvalue(), length
            with _spool_errors():
                file.flush()
                file.seek(0)
        except BaseException:
            if file is not None:
                # Closing flushes the buffer, which fails again on a full disk.
                with contextlib.suppress(OSError):
                    file.close()
            raise
        return file, length

    def _encode_batches(self, records: Iterable[Record]) -> Iterator[bytes]:
        iterator, index = iter(records), 0
        while batch := list(islice(iterator, BATCH)):
            yield self._encode_batch(batch, index)
            index += BATCH

    def _encode_batch(self, batch: list[Record], index: int) -> bytes:
        """Return records as a JSON array; ``index`` is that of the first record."""
        try:
            return self._encode_records(batch)
        except StorageError:  # a lazy record reads from its storage only now
            raise
        except Exception as error:
            place = self._find_failing(batch)
            raise UnserialisableRecord(index + place, batch[place]) from error

    def _find_failing(self, batch: list[Record]) -> int:
        """Return the place of the first record that fails on its own, or 0."""
        for place, record in enumerate(batch):
            try:
                self._encode_records([record])
            except Exception:  # noqa: BLE001 - this is the one
                return place
        return 0

    def _encode_records(self, batch: list[Record]) -> bytes:
        kinds = set(map(type, batch))
        bytes_kinds = {kind for kind in kinds if issubclass(kind, bytes)}
        if not bytes_kinds:
            return self._encode_objects(batch, kinds)
        if bytes_kinds == kinds:
            return _join_objects(batch)
        # Not ``isinstance``, because a proxy has the class of another object.
        runs = groupby(batch, key=lambda record: type(record) in bytes_kinds)
        arrays = [self._encode_records(list(run)) for _is_bytes, run in runs]
        return _join_arrays(arrays)

    def _encode_objects(self, batch: list[Record], kinds: set[type]) -> bytes:
        if self._schema is not None:
            batch = _dump_batch(self._schema, batch)
            kinds = set(map(type, batch))
        if kinds != {dict}:
            batch = [_convert_mapping(record) for record in batch]
            if set(map(type, batch)) != {dict}:
                # ``encode`` must make an object of each record of another type, which
                # only an array of that record alone shows.
                arrays = [_check_array(self._encode([record])) for record in batch]
                return _join_arrays(arrays)
        return self._encode_dicts(batch)

    def _encode_dicts(self, batch: list[dict[Any, Any]]) -> bytes:
        """Return mappings as a JSON array.

        If that fails, it is tried again with plain strings as keys. SQLAlchemy's column
        names are of a subclass of ``str``, which orjson refuses.
        """
        try:
            # A copy, because ``encode`` may change the list.
            return _check_array(self._encode(batch.copy()))
        except Exception:
            if all(map(_has_plain_keys, batch)):
                raise
        return _check_array(self._encode(list(map(_convert_mapping, batch))))


def _convert_mapping(record: Any) -> Any:
    """Return a mapping as a ``dict`` with plain strings as keys; others as they are."""
    if not isinstance(record, Mapping):
        return record
    converted = {}
    for key, value in record.items():
        if isinstance(key, str):
            # ``str(key)`` would be the name of a member of an enumeration.
            key = str.__str__(key)  # noqa: PLW2901
        converted[key] = value
    return converted


def _has_plain_keys(record: dict[Any, Any]) -> bool:
    return not any(isinstance(key, str) and type(key) is not str for key in record)


def _dump_batch(schema: Schema, batch: list[Record]) -> list[Any]:
    # A copy, because the schema may change the list.
    dumped: list[Any] = schema.dump(batch.copy(), many=True)
    if len(dumped) != len(batch):
        message = f"schema must dump every record, not {len(dumped)} of {len(batch)}"
        raise ValueError(message)
    return dumped


def _join_objects(objects: list[bytes]) -> bytes:
    """Join JSON objects, of which only the outer braces are checked."""
    for document in objects:
        if document[0] == _OPENING and document[-1] == _CLOSING:
            continue
        stripped = document.strip(_WHITE_SPACE)
        if stripped[0] != _OPENING or stripped[-1] != _CLOSING:
            message = "a record of type bytes must be one JSON object"
            raise ValueError(message)
    # Adding the brackets after joining would copy all of the bytes again.
    parts = objects.copy()
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"
    return b",".join(parts)


def _check_array(array: bytes) -> bytes:
    """Return the result of an encoder if it looks like a JSON array of objects."""
    if type(array) is bytes and array[:2] == b"[{" and array[-2:] == b"}]":
        return array
    spaced = _ARRAY_OF_OBJECTS.fullmatch(array)
    if spaced is None:
        message = "encode must return the bytes of a JSON array of objects"
        raise TypeError(message)
    return b"[%b]" % spaced[1]


def _join_arrays(arrays: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",".join(array[1:-1] for array in arrays)


def _join_chunks(arrays: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Yield the parts of one array with the elements of several, none of them empty."""
    separator = b"["
    for array in arrays:
        yield separator
        yield memoryview(array)[1:-1]
        separator = b","
    if separator == b"[":
        yield separator
    yield b"]"


@contextlib.contextmanager
def _spool_errors() -> Iterator[None]:
    """Raise ``SpoolUnavailable`` for an ``OSError``."""
    try:
        yield
    except OSError as error:
        raise SpoolUnavailable from error
