"""Random histories: processes serve for days and are called, and something fails. A
report may lack no call in time that it calls covered.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from flask_notifications.usage.coverage import Interval
from flask_notifications.usage.times import (
    CLOCK_LIMIT,
    DAY,
    HOUR,
    SECOND,
    to_datetime,
    to_microseconds,
)
from tests.usage.databases import POLICY, REPORT
from tests.usage.simulation import (
    MINUTE,
    START,
    Host,
    Killed,
    Made,
    Process,
    World,
    read,
    simulate_world,
)


@dataclass
class Outcome:
    """What a history has shown: how often each verdict was given, and which calls in
    covered time a report lacked.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class History:
    """Processes that serve for days, some calls, and something that fails near to
    them.
    """

    def __init__(
        self, seed: int, world: World, folder: Path, kinds: Sequence[str]
    ) -> None:
        self.world = world
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.copy = folder / "copy"
        self.outcome = Outcome()
        self.agenda: list[tuple[int, int, Callable[[], object]]] = []
        self.moment = START + self.between(26 * HOUR, 60 * HOUR)
        number = self.random.choice([1, 1, 1, 2])
        self.kinds = [self.random.choice(kinds) for _ in range(number)]
        # Whether nothing delays the write of a first call.
        self.is_prompt = {"quiet", "kill", "fork", "silent fork"}.issuperset(self.kinds)
        self.clients, self.statuses = ["job/1", ""], [200, 200, 403, 500, 410]
        self.options: dict[str, Any] = {}
        if "expire" in self.kinds:
            self.options["retention_days"] = 1

    def between(self, least: int, most: int) -> int:
        power = self.random.choice([1, 3])
        return int(least + (most - least) * self.random.random() ** power)

    def is_lucky(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def plan(self, delay: int, action: Callable[[], object]) -> None:
        at = max(self.moment + delay, START + MINUTE)
        heappush(self.agenda, (at, len(self.agenda) + at % 1000, action))

    def change(self, host: Host, name: str, start: int, end: int) -> None:
        self.plan(start, lambda: setattr(host, name, True))
        self.plan(end, lambda: setattr(host, name, False))

    def cut_off(self, host: Host, start: int, end: int) -> None:
        self.change(host, "is_cut_off", start, end)

    def set_clock(self, host: Host, start: int, end: int) -> None:
        errors = [2 * MINUTE, 4 * MINUTE, 4 * MINUTE, 6 * MINUTE, 3 * HOUR, 3 * DAY]
        error = self.random.choice([-1, 1]) * self.random.choice(errors)
        self.plan(start, lambda: self.world.set_clock(host, error))
        self.plan(end, lambda: self.world.set_clock(host, 0))

    def start(self, host: Host, version: str = "plain") -> Process:
        return self.world.start(host, version, **self.options)

    def run(self) -> Outcome:
        world = self.world
        names = ["", "", ""]
        if "twice" in self.kinds:
            names = ["twin", "twin"]
        for name in names[: self.random.choice([1, 2, 2, 3])]:
            host = world.add_host(name)
            for _ in range(self.random.choice([1, 2])):
                self.start(host)
        self.victim = self.random.choice(world.processes)
        self.plan(-self.between(0, 10 * MINUTE), lambda: self.call("job/1"))
        for kind in self.kinds:
            KINDS[kind](self)
            self.plan(self.between(MINUTE, 20 * HOUR), self.restart)
        for _ in range(self.random.choice([1, 2, 3])):
            self.plan(self.between(-3 * SECOND, 5 * SECOND), self.call)
        for most in (
            5 * SECOND,
            2 * MINUTE,
            5 * MINUTE,
            2 * HOUR,
            20 * HOUR,
            50 * HOUR,
        ):
            self.plan(self.between(5 * SECOND, most), self.report)
        while self.agenda:
            at, _, action = heappop(self.agenda)
            world.advance(at, slow=self.between(0, 150 * SECOND))
            action()
        return self.outcome

    def pick(self) -> Process | None:
        """Return the process to which something happens, or else any."""
        if self.victim.is_alive and self.is_lucky(0.9):
            return self.victim
        alive = self.world.alive()
        return self.random.choice(alive) if alive else None

    def call(self, client: str = "") -> None:
        process = self.pick()
        if process is None:
            return
        client = client or self.random.choice(self.clients)
        client = client or f"job/{len(self.world.calls) + 2}"
        status = self.random.choice(self.statuses)
        world = self.world
        at = world.time + process.host.offset
        if self.is_lucky(0.8):
            world.call(process, client, status)
            return

        def respond() -> None:
            if process.is_alive:
                world.call(process, client, status, at=at)

        self.plan(world.time - self.moment + self.between(0, MINUTE), respond)

    def restart(self) -> None:
        """Start a process on hosts that have none any more."""
        for host in {self.victim.host: None, self.world.hosts[0]: None}:
            if not self.world.alive(host):
                self.victim = self.start(host)

    def end(self) -> None:
        if self.victim.is_alive and self.is_lucky():
            self.world.stop(self.victim)
        self.kill()

    def kill(self) -> None:
        if self.victim.is_alive:
            self.world.kill(self.victim)

    def report(self) -> None:
        world, chance = self.world, self.random
        now = world.time
        ends = [None, None, None, now, now - self.between(0, max(1, now - self.moment))]
        until = chance.choice(ends)
        gone_after = chance.choice([None, None, 1])
        # Otherwise the rules that were heard last decide.
        has_plan = "deploy" in self.kinds or self.is_lucky()
        report = read(
            world,
            plan={REPORT: POLICY} if has_plan else None,
            days=chance.choice([1, 1, 2, 3]),
            until=None if until is None else to_datetime(until),
            gone_after=gone_after,
            ignore_clients=["job/1"],
            min_coverage=chance.choice([0.5, 0.9, 0.99]),
            allow_gap=chance.choice([6, 24]),
        )
        self.outcome.verdicts[report.verdict] += 1
        counts: Counter[str | None] = Counter()
        for row in report.operations[0].callers:
            counts[row.client] += row.calls
        since, end = to_microseconds(report.since), to_microseconds(report.until)
        required: Counter[str] = Counter()
        for call in world.calls:
            is_inside = since <= call.at < end and since <= call.heard_at < end
            gaps = world.coverages[since].gaps
            if is_inside and self.is_required(call, gaps, gone_after):
                required[call.client] += 1
        for client, number in required.items():
            if counts[client] < number:
                self.outcome.wrong.append(
                    f"{'+'.join(self.kinds)}: {report.verdict} on {to_datetime(now)} "
                    f"until {until} for {report.days} days: {number} calls by {client}, "
                    f"but {counts[client]}"
                )

    def is_required(
        self, call: Made, gaps: Sequence[Interval], gone_after: int | None
    ) -> bool:
        """Return whether a report has to have a call."""
        ended_at = call.process.ended_at or self.world.time
        if call.is_first and self.is_prompt and call.time + SECOND <= ended_at:
            return True
        is_covered = not any(start <= call.heard_at < end for start, end in gaps)
        return is_covered and not self.is_beyond(call, gone_after)

    def is_beyond(self, call: Made, gone_after: int | None) -> bool:
        """Return whether a call is beyond what a record can know."""
        process = call.process
        is_cut_off = gone_after and call.silence >= gone_after * HOUR - CLOCK_LIMIT
        # It was written since, if the process has lived for long enough.
        is_restored = process.heard_at <= self.world.restored_at
        return bool(
            not process.heard_at  # it has never reached the database
            or is_cut_off
            or (call.time < self.world.restored_at and is_restored)
            # Nobody heard of the clock's change, or calls go by another day.
            or call.set_at > process.heard_at
            or call.error > CLOCK_LIMIT
            # The day in which it began may have been deleted.
            or call.heard_at - call.at > HOUR
        )


# What fails near to some calls.


def _quiet(_history: History) -> None:
    """Nothing fails."""


def _kill(history: History) -> None:
    history.plan(history.between(0, 8 * SECOND), history.kill)


def _away(history: History) -> None:
    """The database is away for everybody, and perhaps a process ends."""
    start = -history.between(0, 2 * HOUR)
    history.cut_off(history.world.database, start, history.between(SECOND, 20 * HOUR))
    if history.is_lucky(0.7):
        history.plan(history.between(0, MINUTE), history.end)
    if history.is_lucky(0.3):
        at = history.between(-HOUR, 2 * HOUR)
        history.plan(at, lambda: history.start(history.victim.host))


def _sibling(history: History) -> None:
    """A process is killed soon after an outage, while another one of its host lives."""
    # Repeated calls, which are not written at once.
    history.clients, history.statuses = ["job/1"], [200]
    history.start(history.victim.host)
    start = -history.between(2 * MINUTE, 2 * HOUR)
    history.cut_off(history.world.database, start, -history.between(0, 3 * SECOND))
    for _ in range(2):
        history.plan(history.between(0, 2 * SECOND), history.call)
    history.plan(history.between(SECOND, 4 * SECOND), history.kill)


def _cut(history: History) -> None:
    """A host is cut off while another one records; perhaps a process dies there."""
    if len(history.world.hosts) == 1:
        history.start(history.world.add_host())
    start, end = -history.between(0, 40 * HOUR), history.between(MINUTE, 50 * HOUR)
    history.cut_off(history.victim.host, start, end)
    if history.is_lucky(0.6):
        history.plan(history.between(0, 3 * HOUR), history.kill)


def _fork(history: History, *, is_noticed: bool = True) -> None:
    def fork() -> None:
        if history.victim.is_alive:
            child = history.world.fork(history.victim, is_noticed=is_noticed)
            history.victim = history.random.choice([child, child, history.victim])

    history.plan(-history.between(0, 3 * HOUR), fork)
    history.plan(history.between(0, 30 * SECOND), history.end)


def _silent_fork(history: History) -> None:
    """Python does not notice a fork, as under uWSGI."""
    _fork(history, is_noticed=False)


def _clock(history: History) -> None:
    """The clock of a host is wrong for a while, and a process is killed, perhaps in an
    outage.
    """
    start, end = -history.between(MINUTE, 3 * HOUR), history.between(0, 3 * HOUR)
    history.set_clock(history.victim.host, start, end)
    if history.is_lucky():
        start = -history.between(0, 20 * SECOND)
        history.cut_off(history.world.database, start, HOUR)
    history.plan(history.between(0, 30 * SECOND), history.kill)


def _database_clock(history: History) -> None:
    start = -history.between(0, 3 * HOUR)
    if history.is_lucky():
        start = history.between(0, 3 * MINUTE)
    end = max(0, start) + history.between(0, 30 * HOUR)
    history.set_clock(history.world.database, start, end)
    if history.is_lucky():
        history.plan(history.between(0, 10 * SECOND), history.kill)


def _restore(history: History) -> None:
    """The database is restored, which drops what was written since the copy."""
    world = history.world
    end = history.between(0, HOUR)
    if history.is_lucky():
        world.save(history.copy)  # it is empty
        end = history.between(20 * HOUR, 70 * HOUR)
    else:
        start = -history.between(0, 5 * HOUR)
        history.plan(start, lambda: world.save(history.copy))
    history.plan(end, lambda: world.restore(history.copy))
    history.plan(end + history.between(MINUTE, HOUR), history.report)
    if history.is_lucky():
        history.plan(history.between(0, HOUR), history.kill)


def _deploy(history: History) -> None:
    """Another version serves on a host for a while."""
    version = history.random.choice(["moved", "without"])

    def replace(new: str) -> None:
        host = history.victim.host
        for process in history.world.alive(host):
            history.world.stop(process)
        history.victim = history.start(host, new)

    history.plan(-history.between(0, 20 * HOUR), lambda: replace(version))
    end = history.between(0, history.random.choice([10 * SECOND, 20 * HOUR]))
    history.plan(end, lambda: replace("plain"))


def _expire(history: History) -> None:
    """Rows are merged and deleted, also while a report is read."""
    world = history.world

    def report() -> None:
        # Processes that were busy for a day clean up while the report is read.
        world.time += history.random.choice([0, DAY])
        world.between_reads = lambda: world.advance(world.time + MINUTE, MINUTE)
        history.report()

    for _ in range(3):
        history.plan(history.between(0, 60 * HOUR), report)


def _close(history: History) -> None:
    """A recorder is closed and called again, perhaps in an outage."""

    def close() -> None:
        if history.victim.is_alive:
            history.victim = history.world.reopen(history.victim)

    if history.is_lucky():
        start, end = -history.between(0, HOUR), history.between(0, 2 * MINUTE)
        history.cut_off(history.world.database, start, end)
    history.plan(history.between(-SECOND, MINUTE), close)
    history.plan(history.between(0, 2 * MINUTE), history.kill)


def _lose(history: History) -> None:
    """Calls are lost in the recorder, because there is no memory."""

    def lose() -> None:
        if history.victim.is_alive:
            history.world.lose(history.victim, "lost")

    history.plan(history.between(0, 5 * SECOND), lose)
    if history.is_lucky():
        history.plan(history.between(0, 10 * SECOND), history.kill)


def _break(history: History) -> None:
    """Transactions fail before or after their commit, or the process is killed in one."""

    def fail() -> None:
        for _ in range(history.random.choice([1, 2, 5])):
            error = history.random.choice([ConnectionError, ConnectionError, Killed])
            history.world.failures.append((error, history.is_lucky()))

    history.plan(history.between(-2 * SECOND, 3 * SECOND), fail)


def _pause(history: History) -> None:
    """A host stops for a while, such as a virtual machine."""
    start = history.between(-5 * SECOND, 5 * SECOND)
    end = 5 * SECOND + history.between(0, 20 * MINUTE)
    history.change(history.victim.host, "is_paused", start, end)
    history.plan(end + history.between(0, 10 * SECOND), history.kill)


def _twice(_history: History) -> None:
    """Two machines share a name."""


FAILURES = [
    _quiet,
    _kill,
    _away,
    _sibling,
    _cut,
    _fork,
    _silent_fork,
    _clock,
    _database_clock,
    _restore,
    _deploy,
    _expire,
    _close,
    _lose,
    _break,
    _pause,
    _twice,
]
KINDS = {failure.__name__[1:].replace("_", " "): failure for failure in FAILURES}
# Two machines that share a name are beyond what a record can know.
KNOWN = [kind for kind in KINDS if kind != "twice"]


def simulate(seed: int, kinds: Sequence[str] = KNOWN) -> Outcome:
    with simulate_world() as (world, folder):
        return History(seed, world, folder, kinds).run()


def main(first: int, number: int) -> int:
    verdicts: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + number):
        outcome = simulate(seed)
        verdicts += outcome.verdicts
        for text in outcome.wrong:
            wrong += 1
            sys.stdout.write(f"seed {seed}, {text}\n")
    texts = [f"{total} {name}" for name, total in verdicts.most_common()]
    sys.stdout.write(
        f"{number} histories from seed {first}: {', '.join(texts)}; "
        f"{wrong} reports lacked a call\n"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
