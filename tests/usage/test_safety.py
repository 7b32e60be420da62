"""No report says "safe" after a call, in random histories; and each mechanism that once
let one say so is found.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import Connection, Engine, delete

from flask_notifications.usage import UsageRecorder, coverage, reading, store
from flask_notifications.usage.connections import begin
from flask_notifications.usage.ledger import Ledger
from flask_notifications.usage.times import DAY
from tests.usage.simulation import simulate

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", range(0, 24, 12))
def test_no_report_says_safe_after_a_call(first: int) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(first, first + 12):
        outcome = simulate(seed)
        assert (seed, outcome.wrong) == (seed, [])
        verdicts += outcome.verdicts
    assert min(verdicts["safe"], verdicts["in use"], verdicts["unknown"]) > 3


write_once, sign, renew = (
    store.UsageStore._write_once,
    store.UsageStore._sign,
    Ledger.renew,
)
read_recorders = coverage.Recorders.__init__


def forget_after_a_failure(
    usage: store.UsageStore, ledger: Ledger, **options: Any
) -> int:
    try:
        return write_once(usage, ledger, **options)
    except BaseException:
        for entry in ledger.entries.values():
            entry.written = entry.numbers
        raise


def forget_the_lost(recorders: coverage.Recorders, *arguments: Any) -> None:
    read_recorders(recorders, *arguments)
    recorders.losses = []


def delete_in_silence(usage: store.UsageStore, day: int) -> None:
    with begin(usage.engine) as (connection, _now):
        connection.execute(delete(store.usage).where(store.usage.c.day < day))
        connection.execute(
            delete(store.recorders).where(store.recorders.c.heard_at < day * DAY)
        )


def accept_any_row(
    usage: store.UsageStore,
    connection: Connection,
    ledger: Ledger,
    now: int,
    **options: Any,
) -> None:
    try:
        sign(usage, connection, ledger, now, **options)
    except store._RowChanged:
        connection.execute(
            delete(store.recorders).where(store.recorders.c.id == ledger.id)
        )
        ledger.store = 0
        sign(usage, connection, ledger, now, **options)


def cover_the_past(ledger: Ledger) -> None:
    renew(ledger)
    ledger.began = ledger.origin.began


@contextmanager
def read_without_a_snapshot(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "counts of a failed write are forgotten": (
        "away",
        store.UsageStore,
        "_write_once",
        forget_after_a_failure,
    ),
    "a lost recorder uncovers nothing": (
        "cut",
        coverage.Recorders,
        "__init__",
        forget_the_lost,
    ),
    "counts of a closed recorder are forgotten": (
        "close",
        UsageRecorder,
        "_leave",
        lambda own: own._ended.clear(),
    ),
    "calls are deleted without a note": (
        "expire",
        store.UsageStore,
        "_delete_before",
        delete_in_silence,
    ),
    "a report is no snapshot": ("expire", reading, "_reading", read_without_a_snapshot),
    "another path counts as covered": (
        "deploy",
        coverage.Recorders,
        "fitting",
        lambda own, *_: frozenset(own._plans),
    ),
    "clocks are not compared": ("clock", Ledger, "note_skew", lambda *_: None),
    "a row that was restored is accepted": (
        "restore",
        store.UsageStore,
        "_sign",
        accept_any_row,
    ),
    "a new identity covers the past": ("restore", Ledger, "renew", cover_the_past),
    "a spool from before a power failure ends the loss": (
        "power",
        Ledger,
        "is_whole",
        True,
    ),
}


@pytest.mark.parametrize(
    ("kind", "owner", "name", "mistake"), MISTAKES.values(), ids=MISTAKES
)
def test_a_mistake_that_is_put_back_is_found(
    kind: str, owner: Any, name: str, mistake: Any
) -> None:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(owner, name, mistake))
        seed = next((seed for seed in range(100) if simulate(seed, [kind]).wrong), None)
    assert seed is not None
    assert simulate(seed, [kind]).wrong == []
