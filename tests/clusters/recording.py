"""A process that records calls on one database: ``recording.py URL CALLS``.

It makes the tables, waits for its standard input to close, records calls, and ends.
"""

import sys
from datetime import UTC, datetime

from flask_notifications import Call
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import UsageRecorder
from tests.usage.databases import POLICY, REPORT


def main(url: str, calls: int) -> None:
    recorder = UsageRecorder(url, flush_interval=0.1)
    recorder.listen({REPORT: POLICY})
    recorder.request_passed()
    sys.stdin.read()
    for number in range(calls):
        now = datetime.now(UTC)
        client = f"job/{number % 7}"
        recorder(Call("report", "GET", 200, Phase.DEPRECATED, None, client, now, None))
    recorder.close()


main(sys.argv[1], int(sys.argv[2]))
