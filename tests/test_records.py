"""Records become one complete array, in memory or in a file, or an exception."""

import collections
import enum
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, BinaryIO
from uuid import UUID

import flask
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, fields, post_dump, pre_dump
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import quoted_name

from flask_notifications import StorageUnavailable
from flask_notifications.records import BATCH, ArrayWriter, SpoolUnavailable, UnserialisableRecord
from tests.storages import Source

MEMORY = 1_000_000


@dataclass
class Alert:
    name: str
    limit: int = 3


@dataclass(slots=True, frozen=True)
class Slotted:
    name: str


class AlertSchema(Schema):
    name = fields.String(data_key="subject")
    due = fields.AwareDateTime(format="iso")


class Envelope(AlertSchema):
    @post_dump(pass_collection=True)
    def wrap(self, data: Any, many: bool, **_context: Any) -> Any:
        assert many
        return {"data": data}


class BareName(AlertSchema):
    @post_dump
    def name_only(self, data: Any, **_context: Any) -> Any:
        return data["subject"]


def make_writer(
    encode: Callable[[list[Any]], Any] = orjson.dumps, schema: Schema | None = None, threshold: int = MEMORY
) -> ArrayWriter:
    return ArrayWriter(encode=encode, schema=schema, spool_threshold=threshold)


def write(records: Iterable[Any], writer: ArrayWriter | None = None) -> bytes:
    """Return the array, whose length must be exact."""
    body, length = (writer or make_writer()).write(records)
    if not isinstance(body, bytes):
        with body:
            body = body.read()
    assert len(body) == length
    return body


def encode_with_flask(batch: list[Any]) -> bytes:
    return flask.Flask("app").json.dumps(batch).encode()


def encode_indented(batch: list[Any]) -> bytes:
    return json.dumps(batch, indent=2).encode()


def make_records(count: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(count)]


# Records that are accepted.


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], b"[]", id="none"),
        pytest.param([{"z": 1, "a": {"y": [1, {"x": None}], "b": {}}}], None, id="key order and nested objects"),
        pytest.param([{"due": "2026-01-01T00:00:57.1569714Z"}], None, id="the format of a date"),
        pytest.param([{}], b"[{}]", id="no members"),
        pytest.param([{"a": "Zürich €"}], '[{"a":"Zürich €"}]'.encode(), id="not ASCII"),
        pytest.param([b'{ "n" : 1.50 , "n" : 2}'], b'[{ "n" : 1.50 , "n" : 2}]', id="bytes untouched"),
        pytest.param([b' {"n":1}\r\n', b'{"n":2}'], b'[ {"n":1}\r\n,{"n":2}]', id="bytes with space around"),
        pytest.param([b'{"n":'.ljust(9) + b"}"], b'[{"n":    }]', id="bytes are trusted between their braces"),
        pytest.param([b"{}", {"n": 1}, {"n": 2}, b"{}", {}], b'[{},{"n":1},{"n":2},{},{}]', id="mixed"),
        pytest.param([Alert("x"), {"n": 1}, b"{}"], b'[{"name":"x","limit":3},{"n":1},{}]', id="dataclass"),
        pytest.param([Slotted("x")], b'[{"name":"x"}]', id="dataclass with slots"),
        pytest.param([types.MappingProxyType({"b": 1, "a": 2})], b'[{"b":1,"a":2}]', id="mappingproxy"),
        pytest.param([collections.OrderedDict(b=1, a=2)], b'[{"b":1,"a":2}]', id="OrderedDict"),
        pytest.param([collections.UserDict({"a": 2}), b"{}"], b'[{"a":2},{}]', id="UserDict"),
        pytest.param([collections.ChainMap({"a": 2}), {"a": 3}], b'[{"a":2},{"a":3}]', id="ChainMap"),
        pytest.param([{"a": math.nan, "b": -math.inf}], b'[{"a":null,"b":null}]', id="NaN is null to orjson"),
        pytest.param([{"a": 2**64 - 1, "b": -(2**63)}], None, id="64 bits"),
        pytest.param([{"a": datetime(2026, 1, 1, tzinfo=UTC)}], b'[{"a":"2026-01-01T00:00:00+00:00"}]', id="datetime"),
        pytest.param([{"a": UUID(int=1)}], b'[{"a":"00000000-0000-0000-0000-000000000001"}]', id="UUID"),
    ],
)
@pytest.mark.parametrize("threshold", [MEMORY, 0], ids=["memory", "file"])
def test_records_are_written_unchanged(records: list[Any], expected: bytes | None, threshold: int) -> None:
    assert write(records, make_writer(threshold=threshold)) == (orjson.dumps(records) if expected is None else expected)


@pytest.mark.parametrize("count", [0, 1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 1000])
@pytest.mark.parametrize("encode", [orjson.dumps, encode_with_flask, encode_indented])
def test_batches_are_joined_to_one_array(count: int, encode: Callable[[list[Any]], bytes]) -> None:
    assert json.loads(write(iter(make_records(count)), make_writer(encode))) == make_records(count)


@pytest.mark.parametrize("count", [1, BATCH, BATCH + 1, 1000])
def test_bytes_and_objects_keep_their_order(count: int) -> None:
    records = [b'{"n":%d}' % record["n"] if record["n"] % 3 else record for record in make_records(count)]
    assert json.loads(write(records)) == make_records(count)


def test_records_are_encoded_in_bounded_batches() -> None:
    sizes: list[int] = []

    def encode(batch: list[Any]) -> bytes:
        sizes.append(len(batch))
        return orjson.dumps(batch)

    assert json.loads(write(iter(make_records(1000)), make_writer(encode))) == make_records(1000)
    assert sum(sizes) == 1000
    assert max(sizes) < 1000


def test_records_are_not_read_beyond_the_batch_of_a_wrong_record() -> None:
    read: list[int] = []

    def records() -> Iterator[Any]:
        for number in range(10 * BATCH):
            read.append(number)
            yield {"n": object() if number == 1 else number}

    with pytest.raises(UnserialisableRecord):
        write(records())
    assert len(read) == BATCH


@pytest.mark.parametrize(
    ("encode", "record", "expected"),
    [
        pytest.param(
            encode_with_flask, {"b": Decimal("1.50"), "a": 2**70}, b'[{"a": 1180591620717411303424, "b": "1.50"}]'
        ),
        pytest.param(encode_with_flask, Alert("x"), b'[{"limit": 3, "name": "x"}]'),
        pytest.param(encode_with_flask, {"a": "\ud800"}, rb'[{"a": "\ud800"}]'),
        pytest.param(lambda batch: orjson.dumps(batch, option=orjson.OPT_INDENT_2), {"a": 1}, b'[{\n    "a": 1\n  }]'),
        pytest.param(lambda batch: orjson.dumps(batch, option=orjson.OPT_APPEND_NEWLINE), {"a": 1}, b'[{"a":1}]'),
        pytest.param(lambda _batch: b"[ {} ]", {}, b"[{}]"),
        pytest.param(lambda batch: bytearray(orjson.dumps(batch)), {"a": 1}, b'[{"a":1}]'),
        pytest.param(lambda batch: json.dumps(batch, default=vars).encode(), types.SimpleNamespace(a=1), b'[{"a": 1}]'),
    ],
    ids=["Decimal and big int", "dataclass", "lone surrogate", "indent", "newline", "spaces", "bytearray", "default"],
)
def test_an_application_may_have_its_own_encode(
    encode: Callable[[list[Any]], Any], record: object, expected: bytes
) -> None:
    assert write([record], make_writer(encode)) == expected


def test_a_schema_dumps_objects_and_leaves_bytes_unchanged() -> None:
    due = types.SimpleNamespace(name="z", due=datetime(2026, 1, 1, tzinfo=UTC))
    records = [{"name": "x", "secret": 1}, b'{"name":"y"}', due]
    expected = b'[{"subject":"x"},{"name":"y"},{"subject":"z","due":"2026-01-01T00:00:00+00:00"}]'
    assert write(records, make_writer(schema=AlertSchema())) == expected


@pytest.mark.parametrize("count", [BATCH, BATCH + 1, 300])
def test_a_schema_dumps_every_batch(count: int) -> None:
    dumped = json.loads(write(({"name": str(number)} for number in range(count)), make_writer(schema=AlertSchema())))
    assert dumped == [{"subject": str(number)} for number in range(count)]


# Keys of a subclass of str, which orjson refuses.


class Key(str):
    """A subclass of str, as SQLAlchemy uses for names of columns."""

    __slots__ = ()


class Field(str, enum.Enum):  # noqa: UP042 - the str() of a StrEnum is the string itself
    """A string with another str() than itself."""

    N = "n"


class Labelled(dict[Any, Any]):
    """A subclass of dict."""


def make_keyed(number: int) -> dict[str, int]:
    return {Key("n"): number, "m": number}


KEYED: dict[str, Callable[[int], Any]] = {
    "dict": make_keyed,
    "dict with a name of a column": lambda number: {quoted_name("n", quote=None): number, "m": number},
    "dict with a member of an enumeration": lambda number: {Field.N: number, "m": number},
    "subclass of dict": lambda number: Labelled(make_keyed(number)),
    "OrderedDict": lambda number: collections.OrderedDict(make_keyed(number)),
    "mappingproxy": lambda number: types.MappingProxyType(make_keyed(number)),
    "ChainMap": lambda number: collections.ChainMap(make_keyed(number)),
}


@pytest.mark.parametrize("make", KEYED.values(), ids=KEYED)
@pytest.mark.parametrize("count", [1, BATCH, 1000])
@pytest.mark.parametrize("encode", [orjson.dumps, encode_with_flask], ids=["orjson", "Flask"])
def test_keys_may_be_of_a_subclass_of_str(
    make: Callable[[int], Any], count: int, encode: Callable[[list[Any]], bytes]
) -> None:
    expected = [{"n": number, "m": number} for number in range(count)]
    for records in ([make(number) for number in range(count)], (make(number) for number in range(count))):
        assert json.loads(write(records, make_writer(encode))) == expected
    mixed = [{"n": -1}, make(0), b"{}", make(1)]
    assert json.loads(write(mixed, make_writer(encode))) == [{"n": -1}, {"n": 0, "m": 0}, {}, {"n": 1, "m": 1}]


def test_both_mappings_of_a_row_of_sqlalchemy_are_records() -> None:
    table = Table("notes", MetaData(), Column("id", Integer), Column("createdOn", String))
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        table.metadata.create_all(connection)
        connection.execute(table.insert(), [{"id": 1, "createdOn": "x"}, {"id": 2, "createdOn": None}])
        rows = connection.execute(select(table.c.id, table.c.createdOn)).all()
    engine.dispose()
    expected = b'[{"id":1,"createdOn":"x"},{"id":2,"createdOn":null}]'
    assert write([row._asdict() for row in rows]) == expected
    assert write([row._mapping for row in rows]) == expected


@pytest.mark.parametrize("make", KEYED.values(), ids=KEYED)
def test_a_wrong_record_among_keys_of_a_subclass_of_str_has_its_index(make: Callable[[int], Any]) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        write([make(0), make(1), {Key("n"): object()}, make(2)])
    assert caught.value.index == 2


def test_keys_that_are_no_strings_are_refused() -> None:
    for record in ({1: "a"}, types.MappingProxyType({1: "a"}), {Key("n"): 1, 2: "a"}):
        with pytest.raises(UnserialisableRecord):
            write([record])


# How many records are encoded in one call.


def list_batch_sizes(records: Iterable[Any], threshold: int = MEMORY) -> list[int]:
    """Return the number of records in each call of ``encode``, in order."""
    sizes: list[int] = []

    def encode(batch: list[Any]) -> bytes:
        sizes.append(len(batch))
        return orjson.dumps(batch)

    json.loads(write(records, make_writer(encode, threshold=threshold)))
    return sizes


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("threshold", [MEMORY, 10], ids=["memory", "file"])
def test_a_list_of_moderate_size_is_encoded_in_one_call(kind: type, threshold: int) -> None:
    sizes = list_batch_sizes(kind(make_records(10_000)), threshold)
    assert sizes[-1] == 10_000
    assert max(sizes[:-1]) <= BATCH


def test_a_list_that_is_no_longer_than_a_batch_is_encoded_once() -> None:
    assert list_batch_sizes(make_records(BATCH)) == [BATCH]


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(iter(make_records(10_000)), id="an iterator"),
        pytest.param(Source(make_records(10_000)), id="another iterable"),
        pytest.param(collections.deque(make_records(10_000)), id="another sequence"),
        pytest.param([{"text": "x" * 5_000}] * 1_000, id="a list whose array is large"),
    ],
)
def test_every_other_iterable_is_encoded_in_batches(records: Iterable[Any]) -> None:
    assert max(list_batch_sizes(records)) <= BATCH


@pytest.mark.parametrize("count", [10, BATCH, 1000])
@pytest.mark.parametrize("kind", ["encode", "schema"])
def test_the_lists_of_a_storage_are_never_changed(count: int, kind: str) -> None:
    class Emptying(Schema):
        n = fields.Integer()

        @pre_dump(pass_collection=True)
        def empty(self, records: list[Any], **_context: Any) -> list[Any]:
            copied = list(records)
            records.clear()
            return copied

    records = [b"{}", *make_records(count), b"{}"]
    writer = make_writer(encode_and_clear) if kind == "encode" else make_writer(schema=Emptying())
    write(records, writer)
    assert records == [b"{}", *make_records(count), b"{}"]


@pytest.mark.parametrize("count", [3, BATCH, 1000])
def test_the_index_is_right_although_encode_clears_its_list(count: int) -> None:
    def encode(batch: list[Any]) -> bytes:
        copied = list(batch)
        batch.clear()
        return orjson.dumps(copied)

    for records in ([*make_records(count), {"n": object()}], iter([*make_records(count), {"n": object()}])):
        with pytest.raises(UnserialisableRecord) as caught:
            write(records, make_writer(encode))
        assert caught.value.index == count


# Records that are refused.


def nest(depth: int) -> dict[str, Any]:
    """Return an object that is nested ``depth`` levels deep."""
    record: dict[str, Any] = {}
    for _level in range(depth):
        record = {"a": record}
    return record


WRONG_RECORDS = [
    pytest.param([1], id="list"),
    pytest.param([], id="empty list"),
    pytest.param((("a", 1),), id="tuple"),
    pytest.param("{}", id="string"),
    pytest.param("", id="empty string"),
    pytest.param(1, id="number"),
    pytest.param(True, id="bool"),
    pytest.param(None, id="None"),
    pytest.param(object(), id="object"),
    pytest.param(Alert, id="a class"),
    pytest.param({1: "a"}, id="key that is no string"),
    pytest.param({"a": object()}, id="member that is no JSON"),
    pytest.param({"a": Decimal(1)}, id="Decimal"),
    pytest.param({"a": 2**64}, id="more than 64 bits"),
    pytest.param({"a": "\ud800"}, id="lone surrogate"),
    pytest.param({"\udfff": 1}, id="lone surrogate in a key"),
    pytest.param(nest(100_000), id="nested deeply"),
    pytest.param(b"", id="no bytes"),
    pytest.param(b"  ", id="bytes of spaces"),
    pytest.param(b"[1]", id="bytes of an array"),
    pytest.param(b'"{}"', id="bytes of a string"),
    pytest.param(b"null", id="bytes of null"),
    pytest.param(b"{", id="bytes of a brace"),
    pytest.param(b'{"a":1', id="truncated bytes"),
    pytest.param(b'"a":1}', id="bytes without a beginning"),
    pytest.param(bytearray(b"{}"), id="bytearray"),
    pytest.param(memoryview(b"{}"), id="memoryview"),
]


@pytest.mark.parametrize("record", WRONG_RECORDS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [], id="alone"),
        pytest.param(make_records(3), make_records(3), id="among objects"),
        pytest.param([b"{}", b"{}"], [b"{}"], id="among bytes"),
        pytest.param([b"{}", {}, b"{}"], [{}, b"{}"], id="among both"),
        pytest.param(make_records(BATCH), [], id="first of a batch"),
        pytest.param(make_records(2 * BATCH - 1), make_records(1), id="last of a batch"),
    ],
)
def test_a_wrong_record_is_found_by_its_index(
    record: object, before: list[Any], after: list[Any], spooled: list[BinaryIO]
) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        write([*before, record, *after], make_writer(threshold=10))
    assert caught.value.index == len(before)
    assert str(caught.value) == f"record {len(before)} cannot be expressed as a JSON object"
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize(
    "record",
    [[1], "text", None, 1, object(), Alert("x")],
    ids=["list", "text", "None", "number", "object", "dataclass"],
)
def test_a_record_that_encode_does_not_turn_into_an_object_is_refused(record: object) -> None:
    """``default=str`` turns objects that are not JSON into strings, even dataclasses."""
    with pytest.raises(UnserialisableRecord) as caught:
        write([{}, record, {}], make_writer(lambda batch: json.dumps(batch, default=str).encode()))
    assert caught.value.index == 1


@pytest.mark.parametrize(
    "result",
    [
        None,
        "[{}]",
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"[{}",
        b"{}]",
        b"[{},1]",
        b"[ 1,{}]",
        b"[{}] 1",
        b"null",
        3,
        [b"[{}]"],
        [{}],
    ],
    ids=repr,
)
def test_a_result_of_encode_that_is_no_array_of_objects_is_refused(result: object) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        write([{}], make_writer(lambda _batch: result))
    assert caught.value.index == 0


@pytest.mark.parametrize("schema", [Envelope(), BareName()], ids=["an envelope", "a bare value"])
def test_a_schema_that_dumps_no_objects_is_refused(schema: Schema) -> None:
    with pytest.raises(UnserialisableRecord):
        write([{"name": "x"}, {"name": "y"}], make_writer(schema=schema))


def test_a_batch_that_fails_although_each_record_alone_is_fine_is_refused() -> None:
    def encode(batch: list[Any]) -> bytes:
        if len(batch) > 1:
            raise MemoryError
        return orjson.dumps(batch)

    with pytest.raises(UnserialisableRecord) as caught:
        write(make_records(BATCH + 2), make_writer(encode))
    assert caught.value.index == 0


@pytest.mark.parametrize("error", [ValueError("no"), OSError(28, "no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("count", [0, 1, BATCH, 300])
def test_an_exception_of_the_iteration_is_raised_unchanged(
    error: BaseException, count: int, spooled: list[BinaryIO]
) -> None:
    """An ``OSError`` of a storage is not mistaken for one of the temporary file."""
    with pytest.raises(type(error)) as caught:
        make_writer(threshold=100).write(Source(make_records(count), failure=error))
    assert caught.value is error
    assert len(spooled) == (count >= BATCH)  # only a full batch opens a file
    assert all(file.closed for file in spooled)


# Memory and file.


@pytest.mark.parametrize("records", [[], [{}], [b'{"a":1}', {"b": 2}], make_records(1000)], ids=["0", "1", "2", "1000"])
def test_the_threshold_is_the_last_size_that_stays_in_memory(records: list[Any], spooled: list[BinaryIO]) -> None:
    array = write(records)
    for size, in_file in ((len(array) + 1, False), (len(array), False), (len(array) - 1, True), (0, True)):
        body, length = make_writer(threshold=size).write(records)
        assert isinstance(body, bytes) is not in_file
        assert length == len(array)
        if not isinstance(body, bytes):
            with body:
                assert body.read() == array
        else:
            assert body == array
    assert len(spooled) == 2


def test_a_file_is_rewound_nameless_and_complete() -> None:
    """``sendfile`` needs a real descriptor at position 0 and empty buffers."""
    body, length = make_writer(threshold=10).write(make_records(1000))
    assert not isinstance(body, bytes)
    with body:
        assert body.tell() == 0
        assert os.lseek(body.fileno(), 0, os.SEEK_CUR) == 0
        status = os.fstat(body.fileno())
        assert (status.st_size, status.st_nlink) == (length, 0)
        assert json.loads(body.read()) == make_records(1000)


def test_memory_does_not_grow_with_the_result() -> None:
    records = ({"n": number, "text": "x" * 1000} for number in range(8000))
    tracemalloc.start()
    try:
        body, length = make_writer(threshold=100_000).write(records)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not isinstance(body, bytes)
    body.close()
    assert length > 8_000_000
    assert peak < 2_000_000


def test_without_a_directory_for_the_file_only_small_arrays_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(SpoolUnavailable):
        make_writer(threshold=10).write(make_records(10))
    assert json.loads(write(make_records(10))) == make_records(10)  # in memory


@pytest.mark.slow
@pytest.mark.parametrize("count", [600, 50_000], ids=["when the buffer is flushed", "while it is written"])
@pytest.mark.skipif(sys.platform == "win32", reason="has no limit for the size of files")
def test_a_full_disk_is_an_exception_and_the_file_is_closed(count: int) -> None:
    """A limit on the size of files simulates the full disk, in another process so that it limits no other test."""
    program = textwrap.dedent(f"""
        import errno, resource, tempfile, warnings
        import orjson
        from flask_notifications.records import ArrayWriter, SpoolUnavailable
        from tests.storages import Source, keep_temporary_files

        warnings.simplefilter("error")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        files = []
        make = tempfile.TemporaryFile
        tempfile.TemporaryFile = lambda **options: files.append(make(**options)) or files[-1]
        try:
            ArrayWriter(encode=orjson.dumps, schema=None, spool_threshold=10).write({{"n": n}} for n in range({count}))
        except SpoolUnavailable as error:
            assert error.__cause__.errno == errno.EFBIG
            print([file.closed for file in files])
    """)
    root = os.fspath(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root, timeout=60
    )
    assert (result.stdout, result.stderr) == ("[True]\n", "")


# Any records.

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(STRINGS, VALUES, max_size=4)


@given(st.lists(st.tuples(OBJECTS, st.booleans()), max_size=8), st.sampled_from([1, 40]), st.integers(0, 200))
def test_the_array_is_the_same_as_that_of_json(drawn: list[tuple[Any, bool]], times: int, threshold: int) -> None:
    """The keys have the same order, for objects and bytes, and at every end of a batch."""
    records = [json.dumps(record).encode() if ready else record for record, ready in drawn] * times
    expected = json.dumps([record for record, _ready in drawn] * times)
    array = write(iter(records), make_writer(threshold=threshold))
    assert json.loads(array, object_pairs_hook=tuple) == json.loads(expected, object_pairs_hook=tuple)


@given(st.lists(st.one_of(OBJECTS, st.binary(max_size=6), VALUES), max_size=6))
def test_any_records_become_an_array_of_objects_or_are_refused(records: list[Any]) -> None:
    """Of bytes, only the outer braces are checked."""
    wrong = [
        index
        for index, record in enumerate(records)
        if not isinstance(record, dict)
        and not (isinstance(record, bytes) and record.strip()[:1] == b"{" and record.strip()[-1:] == b"}")
    ]
    if not wrong:
        assert write(records).startswith(b"[")
        return
    with pytest.raises(UnserialisableRecord) as caught:
        write(records)
    assert caught.value.index == wrong[0]


def test_a_schema_that_drops_a_record_is_refused() -> None:
    class Filtering(Schema):
        n = fields.Integer()

        @post_dump(pass_collection=True)
        def only_even(self, data: Any, **_context: Any) -> Any:
            return [each for each in data if each["n"] % 2 == 0] if isinstance(data, list) else data

    with pytest.raises(UnserialisableRecord) as caught:
        write(make_records(4), ArrayWriter(encode=orjson.dumps, schema=Filtering(), spool_threshold=10))
    assert caught.value.index == 1


def test_only_white_space_of_json_may_surround_bytes_of_an_object() -> None:
    assert write([b" \t\r\n{} "], make_writer()) == b"[ \t\r\n{} ]"
    with pytest.raises(UnserialisableRecord):
        write([b"\x0b{}"], make_writer())


def test_storage_unavailable_of_encode_is_raised_unchanged() -> None:
    def encode(_batch: list[Any]) -> bytes:
        raise StorageUnavailable(retry_after=5)

    with pytest.raises(StorageUnavailable):
        write([{}], make_writer(encode))


# Functions that change their argument.


def encode_and_clear(batch: list[Any]) -> bytes:
    array = orjson.dumps(batch)
    batch.clear()
    return array


def encode_and_append(batch: list[Any]) -> bytes:
    array = orjson.dumps(batch)
    batch.append({"n": -1})
    return array


@pytest.mark.parametrize("encode", [encode_and_clear, encode_and_append])
@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 300])
@pytest.mark.parametrize("threshold", [0, 1_000_000])
def test_the_array_is_complete_although_encode_changes_its_list(encode: Any, count: int, threshold: int) -> None:
    assert write(make_records(count), make_writer(encode=encode, threshold=threshold)) == orjson.dumps(
        make_records(count)
    )


def test_a_schema_that_drops_a_record_from_the_list_is_refused() -> None:
    class Dropping(Schema):
        @pre_dump(pass_collection=True)
        def drop(self, records: list[Any], **_many: Any) -> list[Any]:
            records.pop()
            return records

    with pytest.raises(UnserialisableRecord):
        make_writer(schema=Dropping()).write(make_records(3))
