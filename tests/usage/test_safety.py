"""No report lacks a call in time that it calls covered, in random histories; and each
mistake that once hid one is found.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa

from flask_notifications.usage import coverage, reading, store
from flask_notifications.usage.connections import begin
from flask_notifications.usage.counts import ANSWERED, Change, Counts, Name
from flask_notifications.usage.store import Identity, UsageStore
from flask_notifications.usage.times import DAY
from tests.usage.histories import simulate
from tests.usage.simulation import (
    MINUTE,
    START,
    World,
    read,
    simulate_world,
)

pytestmark = pytest.mark.slow

# `make soak HISTORIES=1000` tries more.
NUMBER = 25


def test_no_report_lacks_a_call_in_covered_time() -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(NUMBER):
        outcome = simulate(seed)
        assert (seed, outcome.wrong) == (seed, [])
        verdicts += outcome.verdicts
    assert min(verdicts["safe"], verdicts["in use"], verdicts["unknown"]) > 3


def test_a_host_name_that_two_machines_share_is_beyond_the_record() -> None:
    """One of them is heard while the other one is cut off."""
    assert find_seed(["twice", "cut"]) is not None


def test_a_process_is_gone_by_the_clock_of_its_host() -> None:
    """The database's clock is set back in an outage."""
    with simulate_world() as (world, _folder):
        killed, _sibling = [world.start(world.add_host("web")) for _ in range(2)]
        world.advance(START + DAY, MINUTE)
        world.database.is_cut_off = True
        world.advance(world.time + 10 * MINUTE, MINUTE)
        world.kill(killed)
        world.set_clock(world.database, -4 * MINUTE)
        world.database.is_cut_off = False
        world.advance(world.time + 10 * MINUTE, 10 * MINUTE)
        read(world)
        assert killed.ended_at is not None
        (coverage,) = world.coverages.values()
        silence = next(gap for gap in coverage.gaps if gap[1] > START + DAY)
        assert silence[0] < killed.ended_at < silence[1] < world.database_clock()


def find_seed(kinds: list[str]) -> int | None:
    """Return the first history in which a report lacks a call."""
    for seed in range(100):
        if simulate(seed, kinds).wrong:
            return seed
    return None


# The mistakes.

write_once = UsageStore._write_once
prepare = Identity.prepare
sign = store._sign
init_service = coverage.Service.__init__
count = Counts.count


def forget_after_a_failure(
    usage: UsageStore, identity: Identity, counts: Counts, **options: Any
) -> int:
    changes = counts.changes()
    counts.confirm(changes)
    return write_once(usage, identity, counts, **options)


def ignore_silences(service: coverage.Service, *values: Any, **options: Any) -> None:
    init_service(service, *values, **options)
    service.silences = []


def delete_in_silence(usage: UsageStore, day: int) -> None:
    with begin(usage.engine) as (connection, _now):
        connection.execute(sa.delete(store.usage).where(store.usage.c.day < day))


def wait_with_another_kind(counts: Counts, name: Name, at: int, kind: int) -> bool:
    is_new = count(counts, name, at, kind)
    changes = [change for change in counts.changes() if change.name == name]
    return is_new and sum(changes[0].numbers[ANSWERED:]) == 1


@contextmanager
def read_without_a_snapshot(reader: sa.Engine) -> Iterator[sa.Connection]:
    engine = sa.create_engine(reader.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def ignore_clocks(
    identity: Identity, now: int, changes: Iterable[Change], *, is_whole: bool
) -> None:
    prepare(identity, now, changes, is_whole=is_whole)
    identity.skew = 0


def declare_all(connection: sa.Connection, identity: Identity, now: int) -> None:
    others = store.recorders.c.id != identity.id
    gone = sa.update(store.recorders).where(others, store.recorders.c.ended == 0)
    connection.execute(gone.values(gone_at=now))


def accept_any_row(
    connection: sa.Connection, identity: Identity, now: int, *, is_final: bool
) -> None:
    anything = sa.update(store.recorders).where(store.recorders.c.id == identity.id)
    connection.execute(anything.values(gone_at=0, stamp=identity.attempt))
    sign(connection, identity, now, is_final=is_final)


MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "counts of a failed write are forgotten": (
        "away",
        UsageStore,
        "_write_once",
        forget_after_a_failure,
    ),
    "a silent recorder uncovers nothing": (
        "kill",
        coverage.Service,
        "__init__",
        ignore_silences,
    ),
    "calls are deleted without raising kept_from": (
        "expire",
        UsageStore,
        "_delete_before",
        delete_in_silence,
    ),
    "a report is no snapshot": ("expire", reading, "_reading", read_without_a_snapshot),
    "another path counts as covered": (
        "deploy",
        coverage.Service,
        "plans_with",
        lambda service, *_: frozenset(service._plans),
    ),
    "clocks are not compared": ("clock", Identity, "prepare", ignore_clocks),
    "a row that was restored is accepted": ("restore", store, "_sign", accept_any_row),
    "a new identity covers the past": (
        "restore",
        Identity,
        "renew",
        lambda identity: identity._take_id(identity.began),
    ),
    "a worker that an outage silences is declared gone at once": (
        "sibling",
        Identity,
        "is_in_contact",
        lambda *_: True,
    ),
    "another host declares one gone": ("cut", store, "_declare_gone", declare_all),
    "an exception in the recorder loses a call": (
        "lose",
        Identity,
        "prepare",
        lambda *values, **_is_whole: prepare(*values, is_whole=True),
    ),
    "a fork that Python does not notice": (
        "silent fork",
        World,
        "process_id",
        lambda _world: 1,
    ),
    "a first call of another kind waits": (
        "kill",
        Counts,
        "count",
        wait_with_another_kind,
    ),
}


@pytest.mark.parametrize(
    ("kind", "owner", "name", "mistake"), MISTAKES.values(), ids=MISTAKES
)
def test_a_mistake_that_is_put_back_is_found(
    kind: str, owner: Any, name: str, mistake: Any
) -> None:
    with mock.patch.object(owner, name, mistake):
        seed = find_seed([kind])
    assert seed is not None
    assert simulate(seed, [kind]).wrong == []
