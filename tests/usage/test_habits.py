"""Ordinary habits of operation do not make the verdict unknown: 75 days each, with a
report a day from the 31st on, and nobody who calls.
"""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from flask_notifications.usage import PROBE, Verdict
from flask_notifications.usage.times import DAY, HOUR, SECOND
from tests.usage.databases import POLICY, REPORT
from tests.usage.simulation import (
    MINUTE,
    START,
    Host,
    Process,
    World,
    read,
    simulate_world,
)

pytestmark = pytest.mark.slow

DAYS, FIRST_REPORT = 75, 31


class Fleet:
    """Two hosts with a process each; with pods, a new process has a new host."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.day = 0
        self.hosts = [world.add_host(), world.add_host()]
        self.start()
        world.call(self.alive[0], f"{PROBE}/2")
        self.settle()

    @property
    def alive(self) -> list[Process]:
        return self.world.alive()

    def start(self, version: str = "plain") -> None:
        for host in self.hosts:
            self.begin(host, version)

    def begin(self, host: Host, version: str = "plain") -> Process:
        return self.world.start(host, version, flush_interval=30)

    def stop(self) -> None:
        for process in self.alive:
            self.world.stop(process)

    def wait(self, time: int) -> None:
        """Let time pass."""
        self.world.advance(self.world.time + time)

    def settle(self) -> None:
        """Let three minutes pass, with all signs of life."""
        self.world.advance(self.world.time + 3 * MINUTE, 3 * MINUTE)

    # Habits.

    def do_nothing(self) -> None:
        pass

    def restart_one_by_one(self) -> None:
        for process in self.alive:
            self.world.stop(process)
            self.begin(process.host)
            self.wait(MINUTE)

    def replace_pods(self) -> None:
        old = self.alive
        self.hosts = [self.world.add_host(), self.world.add_host()]
        self.start()
        self.wait(MINUTE)
        for process in old:
            self.world.stop(process)

    def stop_and_start(self) -> None:
        self.stop()
        self.wait(2 * MINUTE)
        self.start()

    def kill_pod(self) -> None:
        killed = self.alive[0]
        self.world.kill(killed)
        self.begin(self.world.add_host())

    def kill_worker(self) -> None:
        killed = self.alive[0]
        self.world.kill(killed)
        self.begin(killed.host)
        self.settle()

    def kill_all_workers(self) -> None:
        for process in self.alive:
            self.world.kill(process)
        self.start()
        self.settle()

    def lose_host(self) -> None:
        self.world.kill(self.alive[0])

    def scale_up_and_down(self) -> None:
        more = [self.begin(self.world.add_host()) for _ in range(2)]
        self.wait(3 * HOUR)
        for process in more:
            self.world.stop(process)

    def scale_to_zero_at_night(self) -> None:
        self.wait(10 * HOUR)
        self.stop()
        self.wait(8 * HOUR)
        self.start()

    def scale_to_zero_at_weekends(self) -> None:
        self.wait(8 * HOUR)
        self.stop()
        self.world.time += 2 * DAY + 12 * HOUR
        self.start()

    def lose_database(self) -> None:
        self.world.database.is_cut_off = True
        self.wait(10 * MINUTE)
        self.world.database.is_cut_off = False

    def deploy_in_a_night_without_database(self) -> None:
        self.world.database.is_cut_off = True
        self.wait(4 * HOUR)
        self.stop()
        self.start()
        self.wait(4 * HOUR)
        self.world.database.is_cut_off = False
        self.settle()

    def replace_pods_without_database(self) -> None:
        self.world.database.is_cut_off = True
        self.wait(2 * MINUTE)
        self.replace_pods()
        self.wait(8 * MINUTE)
        self.world.database.is_cut_off = False

    def use_laptop(self, version: str = "plain") -> None:
        laptop = self.begin(Host("laptop"), version)
        self.wait(HOUR)
        self.world.kill(laptop)

    def use_laptop_with_other_branch(self) -> None:
        self.use_laptop("moved")

    def roll_back(self, version: str = "without") -> None:
        self.stop()
        self.start(version)
        self.wait(30 * MINUTE)
        self.stop()
        self.start()

    def move_path(self) -> None:
        self.roll_back("moved")

    def pause(self) -> None:
        host = self.alive[0].host
        host.is_paused = True
        self.wait(5 * MINUTE)
        host.is_paused = False
        self.settle()

    def set_clock(self) -> None:
        host = self.alive[0].host
        self.world.set_clock(host, 65 * SECOND)
        self.wait(HOUR)
        self.world.set_clock(host, 0)


ONCE = DAYS
# For hosts that end without a goodbye.
PODS = {"gone_after": 0.1}
NIGHTS = {"allow_gap": 9, "min_coverage": 0.6}
WEEKENDS = {"allow_gap": 61, "min_coverage": 0.5}
# How often something is done, in days, and the options that docs/usage.md recommends.
HABITS: dict[str, tuple[int, Callable[[Fleet], None], dict[str, Any]]] = {
    "steady": (1, Fleet.do_nothing, {}),
    "rolling restart, weekly": (7, Fleet.restart_one_by_one, {}),
    "pods replaced, daily": (1, Fleet.replace_pods, {}),
    "a pod killed, weekly": (7, Fleet.kill_pod, PODS),
    "a worker killed, weekly": (7, Fleet.kill_worker, {}),
    "autoscaling": (1, Fleet.scale_up_and_down, {}),
    "a spot machine vanishes, every 10 days": (10, Fleet.kill_pod, PODS),
    "scaled to zero at night": (1, Fleet.scale_to_zero_at_night, NIGHTS),
    "scaled to zero at weekends": (7, Fleet.scale_to_zero_at_weekends, WEEKENDS),
    "blue and green, weekly": (7, Fleet.replace_pods, {}),
    "stop and start, weekly": (7, Fleet.stop_and_start, {}),
    "out of memory in a pod, daily": (1, Fleet.kill_pod, PODS),
    "out of memory in a pod, monthly": (30, Fleet.kill_pod, PODS),
    "out of memory on a host, daily": (1, Fleet.kill_worker, {}),
    "a host dies for ever": (ONCE, Fleet.lose_host, PODS),
    "the database is away, daily": (1, Fleet.lose_database, {}),
    "the database is away at night, with a deployment": (
        ONCE,
        Fleet.deploy_in_a_night_without_database,
        {},
    ),
    "pods replaced while the database is away": (
        ONCE,
        Fleet.replace_pods_without_database,
        PODS,
    ),
    "a laptop, once": (ONCE, Fleet.use_laptop, PODS),
    "a laptop with another branch, once": (
        ONCE,
        Fleet.use_laptop_with_other_branch,
        PODS,
    ),
    "a rollback for 30 minutes": (ONCE, Fleet.roll_back, {}),
    "a moved path for 30 minutes": (ONCE, Fleet.move_path, {}),
    "a machine paused for 5 minutes, weekly": (7, Fleet.pause, {}),
    "a clock off by 65 seconds, once": (ONCE, Fleet.set_clock, {}),
    "waitress, which ends on SIGTERM, weekly": (7, Fleet.kill_all_workers, {}),
}


def live(
    every: int, habit: Callable[[Fleet], None], options: dict[str, Any]
) -> Counter[Verdict]:
    """Return how often each verdict was given."""
    verdicts: Counter[Verdict] = Counter()
    with simulate_world() as (world, _folder):
        fleet = Fleet(world)
        for day in range(DAYS + 1):
            world.advance(START + day * DAY + 9 * HOUR)
            if day >= FIRST_REPORT:
                report = read(world, plan={REPORT: POLICY}, **options)
                verdicts[report.verdict] += 1
            if day % every == every // 2:
                world.advance(world.time + 3 * HOUR)
                habit(fleet)
    return verdicts


def test_at_most_five_percent_of_reports_are_needlessly_unknown() -> None:
    reports = needless = 0
    for name, (every, habit, options) in HABITS.items():
        verdicts = live(every, habit, options)
        unknown = verdicts[Verdict.UNKNOWN]
        reports += verdicts.total()
        needless += unknown
        assert verdicts[Verdict.IN_USE] == 0
        sys.stdout.write(f"{unknown / verdicts.total():4.0%} unknown: {name}\n")
    sys.stdout.write(f"{needless / reports:.1%} of {reports} reports are unknown\n")
    assert needless / reports <= 0.05
