"""The array is whole or it is not there: in memory or in a file, whatever the records are made of."""

import collections
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

from flask_notifications import StorageUnavailable
from flask_notifications.records import BATCH, ArrayWriter, SpoolUnavailable, UnserialisableRecord
from tests.storages import Source, keep_temporary_files

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


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[BinaryIO]:
    return keep_temporary_files(monkeypatch)


def writer(
    encode: Callable[[list[Any]], Any] = orjson.dumps, schema: Schema | None = None, threshold: int = MEMORY
) -> ArrayWriter:
    return ArrayWriter(encode=encode, schema=schema, spool_threshold=threshold)


def written(records: Iterable[Any], made: ArrayWriter | None = None) -> bytes:
    """Return the array; its length must be exact, and a file at its start."""
    body, length = (made or writer()).write(records)
    if not isinstance(body, bytes):
        with body:
            body = body.read()
    assert len(body) == length
    return body


def flask_json(batch: list[Any]) -> bytes:
    return flask.Flask("host").json.dumps(batch).encode()


def indented(batch: list[Any]) -> bytes:
    return json.dumps(batch, indent=2).encode()


def numbered(count: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(count)]


# What is kept of a record.


@pytest.mark.parametrize(
    ("records", "text"),
    [
        pytest.param([], b"[]", id="none"),
        pytest.param([{"z": 1, "a": {"y": [1, {"x": None}], "b": {}}}], None, id="key order and nested objects"),
        pytest.param([{"due": "2026-01-01T00:00:57.1569714Z"}], None, id="a date's text"),
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
def test_records_pass_through(records: list[Any], text: bytes | None, threshold: int) -> None:
    assert written(records, writer(threshold=threshold)) == (orjson.dumps(records) if text is None else text)


@pytest.mark.parametrize("count", [0, 1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 1000])
@pytest.mark.parametrize("encode", [orjson.dumps, flask_json, indented])
def test_batches_join_without_a_seam(count: int, encode: Callable[[list[Any]], bytes]) -> None:
    assert json.loads(written(iter(numbered(count)), writer(encode))) == numbered(count)


@pytest.mark.parametrize("count", [1, BATCH, BATCH + 1, 1000])
def test_bytes_and_objects_keep_their_order(count: int) -> None:
    records = [b'{"n":%d}' % record["n"] if record["n"] % 3 else record for record in numbered(count)]
    assert json.loads(written(records)) == numbered(count)


def test_records_are_encoded_in_bounded_batches() -> None:
    sizes: list[int] = []

    def encode(batch: list[Any]) -> bytes:
        sizes.append(len(batch))
        return orjson.dumps(batch)

    assert json.loads(written(iter(numbered(1000)), writer(encode))) == numbered(1000)
    assert sum(sizes) == 1000
    assert max(sizes) < 1000


def test_records_are_not_read_ahead_of_their_batch() -> None:
    """Reading stops with the batch of the record at fault."""
    read: list[int] = []

    def records() -> Iterator[Any]:
        for number in range(10 * BATCH):
            read.append(number)
            yield {"n": object() if number == 1 else number}

    with pytest.raises(UnserialisableRecord):
        written(records())
    assert len(read) == BATCH


@pytest.mark.parametrize(
    ("encode", "record", "text"),
    [
        pytest.param(flask_json, {"b": Decimal("1.50"), "a": 2**70}, b'[{"a": 1180591620717411303424, "b": "1.50"}]'),
        pytest.param(flask_json, Alert("x"), b'[{"limit": 3, "name": "x"}]'),
        pytest.param(flask_json, {"a": "\ud800"}, rb'[{"a": "\ud800"}]'),
        pytest.param(lambda batch: orjson.dumps(batch, option=orjson.OPT_INDENT_2), {"a": 1}, b'[{\n    "a": 1\n  }]'),
        pytest.param(lambda batch: orjson.dumps(batch, option=orjson.OPT_APPEND_NEWLINE), {"a": 1}, b'[{"a":1}]'),
        pytest.param(lambda _batch: b"[ {} ]", {}, b"[{}]"),
        pytest.param(lambda batch: bytearray(orjson.dumps(batch)), {"a": 1}, b'[{"a":1}]'),
        pytest.param(lambda batch: json.dumps(batch, default=vars).encode(), types.SimpleNamespace(a=1), b'[{"a": 1}]'),
    ],
    ids=["Decimal and big int", "dataclass", "lone surrogate", "indent", "newline", "spaces", "bytearray", "default"],
)
def test_encode_is_the_hosts_own(encode: Callable[[list[Any]], Any], record: object, text: bytes) -> None:
    assert written([record], writer(encode)) == text


def test_a_schema_dumps_first_and_bytes_stay() -> None:
    due = types.SimpleNamespace(name="z", due=datetime(2026, 1, 1, tzinfo=UTC))
    records = [{"name": "x", "secret": 1}, b'{"name":"y"}', due]
    expected = b'[{"subject":"x"},{"name":"y"},{"subject":"z","due":"2026-01-01T00:00:00+00:00"}]'
    assert written(records, writer(schema=AlertSchema())) == expected


@pytest.mark.parametrize("count", [BATCH, BATCH + 1, 300])
def test_a_schema_dumps_every_batch(count: int) -> None:
    dumped = json.loads(written(({"name": str(number)} for number in range(count)), writer(schema=AlertSchema())))
    assert dumped == [{"subject": str(number)} for number in range(count)]


# What is refused.


def deep(depth: int) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for _level in range(depth):
        record = {"a": record}
    return record


WRONG_RECORDS = [
    pytest.param([1], id="list"),
    pytest.param([], id="empty list"),
    pytest.param((("a", 1),), id="tuple"),
    pytest.param("{}", id="text"),
    pytest.param("", id="empty text"),
    pytest.param(1, id="number"),
    pytest.param(True, id="bool"),
    pytest.param(None, id="None"),
    pytest.param(object(), id="object"),
    pytest.param(Alert, id="a class"),
    pytest.param({1: "a"}, id="key that is no text"),
    pytest.param({"a": object()}, id="member that is no JSON"),
    pytest.param({"a": Decimal(1)}, id="Decimal"),
    pytest.param({"a": 2**64}, id="more than 64 bits"),
    pytest.param({"a": "\ud800"}, id="lone surrogate"),
    pytest.param({"\udfff": 1}, id="lone surrogate in a key"),
    pytest.param(deep(100_000), id="deep"),
    pytest.param(b"", id="no bytes"),
    pytest.param(b"  ", id="bytes of spaces"),
    pytest.param(b"[1]", id="bytes of an array"),
    pytest.param(b'"{}"', id="bytes of a text"),
    pytest.param(b"null", id="bytes of null"),
    pytest.param(b"{", id="bytes of a brace"),
    pytest.param(b'{"a":1', id="bytes cut"),
    pytest.param(b'"a":1}', id="bytes without a beginning"),
    pytest.param(bytearray(b"{}"), id="bytearray"),
    pytest.param(memoryview(b"{}"), id="memoryview"),
]


@pytest.mark.parametrize("record", WRONG_RECORDS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [], id="alone"),
        pytest.param(numbered(3), numbered(3), id="among objects"),
        pytest.param([b"{}", b"{}"], [b"{}"], id="among bytes"),
        pytest.param([b"{}", {}, b"{}"], [{}, b"{}"], id="among both"),
        pytest.param(numbered(BATCH), [], id="first of a batch"),
        pytest.param(numbered(2 * BATCH - 1), numbered(1), id="last of a batch"),
    ],
)
def test_a_wrong_record_is_named_by_its_index(
    record: object, before: list[Any], after: list[Any], spooled: list[BinaryIO]
) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        written([*before, record, *after], writer(threshold=10))
    assert caught.value.index == len(before)
    assert str(caught.value) == f"record {len(before)} cannot be expressed as a JSON object"
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize(
    "record",
    [[1], "text", None, 1, object(), Alert("x")],
    ids=["list", "text", "None", "number", "object", "dataclass"],
)
def test_a_record_that_encode_makes_something_else_is_refused_wherever_it_stands(record: object) -> None:
    """``default=str`` makes a text of all that JSON does not know, a dataclass among them."""
    with pytest.raises(UnserialisableRecord) as caught:
        written([{}, record, {}], writer(lambda batch: json.dumps(batch, default=str).encode()))
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
def test_an_encode_that_returns_something_else_is_refused(result: object) -> None:
    with pytest.raises(UnserialisableRecord) as caught:
        written([{}], writer(lambda _batch: result))
    assert caught.value.index == 0


@pytest.mark.parametrize("schema", [Envelope(), BareName()], ids=["an envelope", "a bare value"])
def test_a_schema_that_dumps_no_objects_is_refused(schema: Schema) -> None:
    with pytest.raises(UnserialisableRecord):
        written([{"name": "x"}, {"name": "y"}], writer(schema=schema))


def test_a_failure_that_no_single_record_repeats_is_still_refused() -> None:
    def encode(batch: list[Any]) -> bytes:
        if len(batch) > 1:
            raise MemoryError
        return orjson.dumps(batch)

    with pytest.raises(UnserialisableRecord) as caught:
        written(numbered(BATCH + 2), writer(encode))
    assert caught.value.index == 0


@pytest.mark.parametrize("fault", [ValueError("no"), OSError(28, "no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("count", [0, 1, BATCH, 300])
def test_what_the_iteration_raises_comes_out_as_it_is(
    fault: BaseException, count: int, spooled: list[BinaryIO]
) -> None:
    """An ``OSError`` of the storage is not taken for one of the temporary file."""
    with pytest.raises(type(fault)) as caught:
        writer(threshold=100).write(Source(numbered(count), fault=fault))
    assert caught.value is fault
    assert len(spooled) == (count >= BATCH)  # a batch that is not full waits for nothing
    assert all(file.closed for file in spooled)


# Memory and file.


@pytest.mark.parametrize("records", [[], [{}], [b'{"a":1}', {"b": 2}], numbered(1000)], ids=["0", "1", "2", "1000"])
def test_the_threshold_is_the_last_size_that_stays_in_memory(records: list[Any], spooled: list[BinaryIO]) -> None:
    text = written(records)
    for size, in_file in ((len(text) + 1, False), (len(text), False), (len(text) - 1, True), (0, True)):
        body, length = writer(threshold=size).write(records)
        assert isinstance(body, bytes) is not in_file
        assert length == len(text)
        if not isinstance(body, bytes):
            with body:
                assert body.read() == text
        else:
            assert body == text
    assert len(spooled) == 2


def test_a_file_is_rewound_nameless_and_complete() -> None:
    """As sendfile needs it: a real descriptor at 0, with nothing left in a buffer."""
    body, length = writer(threshold=10).write(numbered(1000))
    assert not isinstance(body, bytes)
    with body:
        assert body.tell() == 0
        assert os.lseek(body.fileno(), 0, os.SEEK_CUR) == 0
        status = os.fstat(body.fileno())
        assert (status.st_size, status.st_nlink) == (length, 0)
        assert json.loads(body.read()) == numbered(1000)


def test_memory_does_not_grow_with_the_result() -> None:
    records = ({"n": number, "text": "x" * 1000} for number in range(8000))
    tracemalloc.start()
    try:
        body, length = writer(threshold=100_000).write(records)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not isinstance(body, bytes)
    body.close()
    assert length > 8_000_000
    assert peak < 2_000_000


def test_no_file_without_a_directory_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(SpoolUnavailable):
        writer(threshold=10).write(numbered(10))
    assert json.loads(written(numbered(10))) == numbered(10)  # a small array needs none


@pytest.mark.parametrize("count", [600, 50_000], ids=["when the buffer is flushed", "while it is written"])
@pytest.mark.skipif(sys.platform == "win32", reason="has no limit for the size of files")
def test_a_disk_that_is_full_is_reported_and_nothing_stays_open(count: int) -> None:
    """The limit on the size of files stands for a full disk; it would hit the tests' own files, hence a new process."""
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
        except SpoolUnavailable as fault:
            assert fault.__cause__.errno == errno.EFBIG
            print([file.closed for file in files])
    """)
    root = os.fspath(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[True]\n", "")


# Any records.

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=4)


@given(st.lists(st.tuples(objects, st.booleans()), max_size=8), st.sampled_from([1, 40]), st.integers(0, 200))
def test_the_array_is_what_json_makes_of_it(drawn: list[tuple[Any, bool]], times: int, threshold: int) -> None:
    """Key order included, whether a record comes as an object or as its text, and wherever the batches end."""
    records = [json.dumps(record).encode() if ready else record for record, ready in drawn] * times
    expected = json.dumps([record for record, _ready in drawn] * times)
    text = written(iter(records), writer(threshold=threshold))
    assert json.loads(text, object_pairs_hook=tuple) == json.loads(expected, object_pairs_hook=tuple)


@given(st.lists(st.one_of(objects, st.binary(max_size=6), values), max_size=6))
def test_whatever_comes_is_an_array_of_objects_or_refused(records: list[Any]) -> None:
    """Bytes are trusted between their braces, so only what they begin and end with is looked at."""
    wrong = [
        index
        for index, record in enumerate(records)
        if not isinstance(record, dict)
        and not (isinstance(record, bytes) and record.strip()[:1] == b"{" and record.strip()[-1:] == b"}")
    ]
    if not wrong:
        assert written(records).startswith(b"[")
        return
    with pytest.raises(UnserialisableRecord) as caught:
        written(records)
    assert caught.value.index == wrong[0]


def test_a_schema_that_drops_a_record_is_refused() -> None:
    class Filtering(Schema):
        n = fields.Integer()

        @post_dump(pass_collection=True)
        def only_even(self, data: Any, **_context: Any) -> Any:
            return [each for each in data if each["n"] % 2 == 0] if isinstance(data, list) else data

    with pytest.raises(UnserialisableRecord) as caught:
        written(numbered(4), ArrayWriter(encode=orjson.dumps, schema=Filtering(), spool_threshold=10))
    assert caught.value.index == 1


def test_only_white_space_of_json_may_stand_around_a_text() -> None:
    assert written([b" \t\r\n{} "], writer()) == b"[ \t\r\n{} ]"
    with pytest.raises(UnserialisableRecord):
        written([b"\x0b{}"], writer())


def test_a_record_that_finds_its_storage_out_of_reach_says_so() -> None:
    def encode(_batch: list[Any]) -> bytes:
        raise StorageUnavailable(retry_after=5)

    with pytest.raises(StorageUnavailable):
        written([{}], writer(encode))


# What the host's own functions may do to the list that they are given.


def popping(batch: list[Any]) -> bytes:
    array = orjson.dumps(batch)
    batch.clear()
    return array


def appending(batch: list[Any]) -> bytes:
    array = orjson.dumps(batch)
    batch.append({"n": -1})
    return array


@pytest.mark.parametrize("encode", [popping, appending])
@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 300])
@pytest.mark.parametrize("threshold", [0, 1_000_000])
def test_a_list_that_encode_changes_is_still_whole(encode: Any, count: int, threshold: int) -> None:
    assert written(numbered(count), writer(encode=encode, threshold=threshold)) == orjson.dumps(numbered(count))


def test_a_schema_that_drops_a_record_from_the_list_is_refused() -> None:
    class Dropping(Schema):
        @pre_dump(pass_collection=True)
        def drop(self, records: list[Any], **_many: Any) -> list[Any]:
            records.pop()
            return records

    with pytest.raises(UnserialisableRecord):
        writer(schema=Dropping()).write(numbered(3))
