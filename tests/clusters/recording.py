"""A process that records calls on one database: ``recording.py URL CALLS``.

It makes the tables, waits for its standard input to close, records calls, and ends.
"""

import sys

from tests.usage.databases import now, record


def main(url: str, calls: int) -> None:
    recorder = record(url, flush_interval=0.1)
    recorder.request_passed()
    sys.stdin.read()
    for number in range(calls):
        recorder(now(f"job/{number % 7}"))
    recorder.close()


main(sys.argv[1], int(sys.argv[2]))
