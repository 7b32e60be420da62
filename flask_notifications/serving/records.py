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

# A list is encoded in one call if its array is likely to have fewer bytes than this.
# That takes less time than the five milliseconds after which the interpreter switches
# threads, and a third less than batches, which are copied.
_ONE_CALL = 4_194_304
# Records of a list, from its beginning to its end, from which the size of its array is
# estimated.
_SAMPLE = 16

# Bytes that are written to a temporary file in one step: single batches would take
# twice as long.
_BUFFER = 1_048_576

# An array of objects from an encoder that adds white space between brackets and braces.
_ARRAY_OF_OBJECTS = re.compile(rb"\s*\[\s*(\{.*\})\s*\]\s*", re.DOTALL)
_OPENING, _CLOSING = b"{}"
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

    Not checked: that ``encode`` writes each of several mappings as an object. Only the
    braces at both ends of what it returns are checked.
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
        """Return the complete array and its length in bytes.

        A file is at its start, and the caller closes it.

        No file is left after an exception, which is ``UnserialisableRecord``,
        ``SpoolUnavailable`` or one of the iteration. The caller closes the records.
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
        if self._schema is not None:  # only its result shows the size
            return False
        sample = records[:: len(records) // _SAMPLE]
        size = 0
        try:
            # Not the size of their array: a generator in a record can be encoded only
            # once.
            for record in sample:
                size += len(repr(record))
        except Exception:  # noqa: BLE001 - batches find the place of the record
            return False
        return size * len(records) < _ONE_CALL * len(sample)

    def _store(self, arrays: Iterable[bytes]) -> tuple[bytes | IO[bytes], int]:
        """Join arrays in memory, or in a temporary file above the threshold."""
        # Grows in place: chunks that are joined at the end would take the memory twice,
        # and the time for it. Sent one by one, their memory would go back to the system
        # after each response, and the next would wait for each page.
        memory, file, length = BytesIO(), None, 0
        try:
            for chunk in _join_chunks(arrays):
                length += len(chunk)
                if length <= self._threshold:
                    memory.write(chunk)
                    continue
                with _writing():
                    if file is None:
                        file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - outlives this call by design
                        file.write(memory.getbuffer())
                        memory = BytesIO()
                    file.write(chunk)
            if file is None:
                return memory.getvalue(), length
            with _writing():
                file.flush()
                file.seek(0)
        except BaseException:
            if file is not None:
                # Closing writes the buffer, and fails where writing failed.
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
        """Return records as a JSON array; ``index`` is the place of the first one."""
        try:
            return self._encode_records(batch)
        except StorageError:  # a record may read from its storage while it is encoded
            raise
        except Exception as error:
            place = self._find_failing(batch)
            raise UnserialisableRecord(index + place, batch[place]) from error

    def _find_failing(self, batch: list[Record]) -> int:
        """Return the place of the first record that cannot be encoded alone, or 0."""
        for place, record in enumerate(batch):
            try:
                self._encode_records([record])
            except Exception:  # noqa: BLE001 - this is the one
                return place
        return 0

    def _encode_records(self, batch: list[Record]) -> bytes:
        kinds = set(map(type, batch))
        are_bytes = {issubclass(kind, bytes) for kind in kinds}
        if len(are_bytes) > 1:
            # By the type, because the ``__class__`` of a proxy is another one.
            runs = groupby(batch, key=lambda record: issubclass(type(record), bytes))
            arrays = [self._encode_records(list(run)) for _is_bytes, run in runs]
            return _join_arrays(arrays)
        if are_bytes.pop():
            return _join_objects(batch)
        return self._encode_objects(batch, kinds)

    def _encode_objects(self, batch: list[Record], kinds: set[type]) -> bytes:
        if self._schema is not None:
            batch = _dump_batch(self._schema, batch)
            kinds = set(map(type, batch))
        if kinds != {dict}:
            batch = [_convert_mapping(record) for record in batch]
            if set(map(type, batch)) != {dict}:
                # Only the result shows whether a record of another type has become an
                # object: each is checked alone.
                arrays = [_check_array(self._encode([record])) for record in batch]
                return _join_arrays(arrays)
        return self._encode_dicts(batch)

    def _encode_dicts(self, batch: list[dict[Any, Any]]) -> bytes:
        """Return mappings as a JSON array, if need be with keys of the type ``str``.

        SQLAlchemy's names of columns are of a subclass, which orjson refuses.
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
            # The str() of a member of an enumeration is not the string itself.
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
    # Brackets around the joined bytes would take another copy of them.
    if len(objects) == 1:
        return b"[" + objects[0] + b"]"
    first, last = b"[" + objects[0], objects[-1] + b"]"
    return b",".join([first, *objects[1:-1], last])


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
    """Yield the parts of one array with the elements of several non-empty ones."""
    separator = b"["
    for array in arrays:
        yield separator
        yield memoryview(array)[1:-1]
        separator = b","
    if separator == b"[":
        yield separator
    yield b"]"


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpoolUnavailable from error
