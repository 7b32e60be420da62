"""Records become one complete array, in memory or in a file, or an exception."""

import json
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, BinaryIO

import flask
import orjson
import pytest
from marshmallow import Schema, fields
from sqlalchemy.sql.elements import quoted_name

from flask_notifications import StorageUnavailable
from flask_notifications.serving.records import BATCH, ArrayWriter, UnserialisableRecord
from tests.storages import Source, raising

MEMORY = 1_000_000
DOCUMENT = type("Document", (bytes,), {})(b'{"n": 1.50}')


@dataclass
class Alert:
    name: str
    limit: int = 3


class AlertSchema(Schema):
    name = fields.String(data_key="subject")
    due = fields.AwareDateTime(format="iso")


def make_writer(
    encode: Callable[[list[Any]], Any] = orjson.dumps,
    schema: Any = None,
    threshold: int = MEMORY,
) -> ArrayWriter:
    return ArrayWriter(encode=encode, schema=schema, spool_threshold=threshold)


def write(records: Iterable[Any], writer: ArrayWriter | None = None) -> bytes:
    body, length = (writer or make_writer()).write(records)
    if not isinstance(body, bytes):
        with body:
            body = body.read()
    assert len(body) == length
    return body


def encode_with_flask(batch: list[Any]) -> bytes:
    return flask.Flask("app").json.dumps(batch).encode()


def encode_and_clear(batch: list[Any]) -> bytes:
    try:
        return orjson.dumps(batch)
    finally:
        batch.clear()


def make_records(count: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(count)]


NESTED = {"z": 1, "a": {"y": [1, {"x": None}], "b": {}}}
UNCHANGED: dict[str, tuple[list[Any], bytes]] = {
    "none": ([], b"[]"),
    "key order and nested objects": ([NESTED], orjson.dumps([NESTED])),
    "bytes untouched": ([b'{ "n" : 1.50 , "n" : 2}'], b'[{ "n" : 1.50 , "n" : 2}]'),
    "bytes after white space": ([b" {}\n"], b"[ {}\n]"),
    "bytes of a subclass": ([b"{}", DOCUMENT, {}], b'[{},{"n": 1.50},{}]'),
    "dataclass": ([Alert("x"), {"n": 1}], b'[{"name":"x","limit":3},{"n":1}]'),
    "mapping": ([types.MappingProxyType({"b": 1, "a": 2})], b'[{"b":1,"a":2}]'),
}


@pytest.mark.parametrize("case", UNCHANGED)
@pytest.mark.parametrize("threshold", [MEMORY, 0], ids=["memory", "file"])
def test_records_are_written_unchanged(case: str, threshold: int) -> None:
    records, expected = UNCHANGED[case]
    assert write(records, make_writer(threshold=threshold)) == expected


ENCODES: dict[str, tuple[Callable[[Any], Any], object, bytes]] = {
    "Flask": (
        encode_with_flask,
        {"b": Decimal("1.50"), "a": 2**70},
        b'[{"a": 1180591620717411303424, "b": "1.50"}]',
    ),
    "white space": (
        lambda batch: orjson.dumps(batch, option=orjson.OPT_INDENT_2),
        {"a": 1},
        b'[{\n    "a": 1\n  }]',
    ),
    "bytearray": (
        lambda batch: bytearray(orjson.dumps(batch)),
        {"a": 1},
        b'[{"a":1}]',
    ),
}


@pytest.mark.parametrize("case", ENCODES)
def test_an_application_may_have_its_own_encode(case: str) -> None:
    encode, record, expected = ENCODES[case]
    assert write([record], make_writer(encode)) == expected


def test_a_schema_dumps_objects_and_leaves_bytes_unchanged() -> None:
    due = types.SimpleNamespace(name="z", due=datetime(2026, 1, 1, tzinfo=UTC))
    records = [{"name": "x", "secret": 1}, b'{"name":"y"}', due]
    dumped = {"subject": "z", "due": "2026-01-01T00:00:00+00:00"}
    written = write(records, make_writer(schema=AlertSchema()))
    # Before marshmallow 3.26, the keys of a schema have no order.
    assert json.loads(written) == [{"subject": "x"}, {"name": "y"}, dumped]


@pytest.mark.parametrize("encode", [encode_and_clear, encode_with_flask])
def test_keys_may_be_of_a_subclass_of_str(encode: Any) -> None:
    """As the names of SQLAlchemy's columns, which orjson refuses."""
    keyed = {quoted_name("n", quote=None): 1, "m": 1}
    records = [{"n": -1}, keyed, b"{}", types.MappingProxyType(keyed)]
    expected = [{"n": -1}, {"n": 1, "m": 1}, {}, {"n": 1, "m": 1}]
    for iterable in (records, records * 100):
        array = write(iterable, make_writer(encode))
        assert json.loads(array)[:4] == expected


def list_batch_sizes(records: Iterable[Any]) -> list[int]:
    """Return the number of records in each call of ``encode``, in order."""
    sizes: list[int] = []

    def encode(batch: list[Any]) -> bytes:
        sizes.append(len(batch))
        return orjson.dumps(batch)

    json.loads(write(records, make_writer(encode)))
    return sizes


def test_a_list_of_moderate_size_is_encoded_in_one_call() -> None:
    assert list_batch_sizes(make_records(10_000)) == [10_000]


LARGE_AT_THE_END: list[Any] = [{}] * 500 + [{"text": "x" * 10_000}] * 500


@pytest.mark.parametrize(
    "records",
    [Source(make_records(10_000)), [{"text": "x" * 5_000}] * 1_000, LARGE_AT_THE_END],
    ids=["another iterable", "a large array", "a list whose first records are small"],
)
def test_every_other_iterable_is_encoded_in_batches(records: Iterable[Any]) -> None:
    assert max(list_batch_sizes(records)) <= BATCH


@pytest.mark.parametrize("count", [1, 1000])
def test_a_generator_in_a_record_is_complete_in_a_list_of_any_length(
    count: int,
) -> None:
    writer = make_writer(lambda batch: json.dumps(batch, default=list).encode())
    records = [{"tags": iter("ab")} for _number in range(count)]
    assert json.loads(write(records, writer)) == [{"tags": ["a", "b"]}] * count


def dump_and_clear(batch: list[Any], **_many: bool) -> list[Any]:
    dumped = list(batch)
    batch.clear()
    return dumped


@pytest.mark.parametrize(
    "change",
    [
        {"encode": encode_and_clear},
        {"schema": types.SimpleNamespace(dump=dump_and_clear)},
    ],
)
def test_the_lists_of_a_storage_are_never_changed(change: Any) -> None:
    records = make_records(1000)
    before = list(records)
    write(records, make_writer(**change))
    assert records == before


DEEP: dict[str, Any] = {}
for _level in range(100_000):
    DEEP = {"a": DEEP}
WRONG_RECORDS: dict[str, Any] = {
    "None": None,
    "a key that is no string": types.MappingProxyType({1: "a"}),
    "a value that encode refuses": {"a": Decimal(1)},
    "nested deeply": DEEP,
    "bytes of an array": b"[1]",
    "truncated bytes": b'{"a":1',
    "a bytearray": bytearray(b"{}"),
}


@pytest.mark.parametrize("case", WRONG_RECORDS)
@pytest.mark.parametrize(
    "before",
    [[], [b"{}", {}, b"{}"], make_records(2 * BATCH - 1), make_records(992)],
    ids=["alone", "after both kinds", "last of a batch", "in the sample"],
)
def test_a_wrong_record_is_found_by_its_index(
    case: str, before: Any, spooled: list[BinaryIO]
) -> None:
    record = WRONG_RECORDS[case]
    records = [*before, record, {}]
    for iterable in (records, iter(records)):
        with pytest.raises(UnserialisableRecord) as caught:
            write(iterable, make_writer(threshold=10))
        assert caught.value.index == len(before)
        start = f"record {len(before)} of type {type(record).__name__} cannot be"
        assert str(caught.value).startswith(start)
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize("result", [None, "[{}]", b"", b"[{},1]", b"[ 1,{}]"], ids=repr)
def test_a_result_of_encode_that_is_no_array_of_objects_is_refused(
    result: object,
) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        write([{}], make_writer(lambda _batch: result))
    assert caught.value.index == 0


def test_the_threshold_is_the_last_size_that_stays_in_memory(
    spooled: list[BinaryIO],
) -> None:
    records = make_records(1000)
    array = write(records)
    for iterable in (records, iter(records), []):
        write(iterable, make_writer(threshold=len(array)))
    assert spooled == []
    for iterable in (records, iter(records)):
        assert write(iterable, make_writer(threshold=len(array) - 1)) == array
    assert len(spooled) == 2


def test_a_schema_that_drops_a_record_is_refused() -> None:
    def dump(batch: list[Any], **_many: bool) -> list[Any]:
        return [record for record in batch if record["n"] % 2 == 0]

    filtering = types.SimpleNamespace(dump=dump)
    with pytest.raises(UnserialisableRecord) as caught:
        write(make_records(4), make_writer(schema=filtering, threshold=10))
    assert caught.value.index == 1


def test_only_storage_unavailable_of_encode_is_raised_unchanged() -> None:
    with pytest.raises(StorageUnavailable):
        write([{}], make_writer(raising(StorageUnavailable())))


def test_a_batch_that_fails_although_each_record_alone_is_fine_is_refused() -> None:
    def encode(batch: list[Any]) -> bytes:
        if len(batch) > 1:
            raise MemoryError
        return orjson.dumps(batch)

    with pytest.raises(UnserialisableRecord) as caught:
        write(make_records(BATCH + 2), make_writer(encode))
    assert caught.value.index == 0
