"""How cheap the library is to be, next to what others pay for the same work. Every comparison stays inside one part."""

from benchmarks import databases, in_process, instructions, middleware, million, neighbour, scaling, schema, servers
from benchmarks.candidates import (
    APPLICATION,
    BLUEPRINT,
    BYTES,
    DJANGO,
    DUMPED,
    FALCON,
    FLASK,
    JSONIFY,
    REST,
    SMOREST,
    STARLETTE,
)
from benchmarks.middleware import CLAIMED_HEADER, CLAIMED_QUERY, PROXY_FIX, UNCLAIMED, UNCLAIMED_POST, WHITENOISE
from benchmarks.parts import Target
from benchmarks.processes import MEGABYTES, SECONDS

_PEERS = (DUMPED, FALCON, STARLETTE, DJANGO, FLASK)


def _middleware(column: str) -> list[Target]:
    return [
        Target(column, UNCLAIMED, 1.0, (WHITENOISE,)),
        Target(column, UNCLAIMED_POST, 1.0, (WHITENOISE,)),
        Target(column, CLAIMED_HEADER, 1.0, (PROXY_FIX,)),
        Target(column, CLAIMED_QUERY, 2.0, (PROXY_FIX,)),
    ]


TARGETS = {
    in_process.PART.name: [
        Target("N = 1", APPLICATION, 1.0, (FALCON,)),
        Target("N = 1", BLUEPRINT, 0.8, (FLASK,)),
        Target(in_process.REFUSED, BLUEPRINT, 0.6, (FLASK,)),
        Target("N = 100", APPLICATION, 1.5, (DUMPED,)),
        Target("N = 100", APPLICATION, 1 / 8, (JSONIFY,)),
        Target("N = 100", APPLICATION, 1 / 20, (SMOREST,)),
        Target("N = 100", APPLICATION, 1 / 20, (REST,)),
        Target("N = 10 000", APPLICATION, 1.2, (DUMPED,)),
        Target("N = 10 000", APPLICATION, 1 / 15, (JSONIFY,)),
        Target("N = 10 000", APPLICATION, 1 / 40, (SMOREST,)),
        Target("N = 10 000", APPLICATION, 1 / 40, (REST,)),
        Target("N = 10 000", BYTES, 0.5, (DUMPED,)),
    ],
    million.PART.name: [
        Target(SECONDS, APPLICATION, 0.75, _PEERS),
        Target(MEGABYTES, APPLICATION, 1 / 20, _PEERS),
        Target(SECONDS, BYTES, 0.4, _PEERS),
    ],
    schema.PART.name: [Target(schema.COLUMN, schema.OURS, 1.05, (schema.DUMP,))],
    middleware.PART.name: _middleware(middleware.ADDED),
    instructions.PART.name: [
        Target(instructions.ANSWER, APPLICATION, 1.0, (FALCON,)),
        Target(instructions.ANSWER, BLUEPRINT, 0.8, (FLASK,)),
        *_middleware(instructions.ADDED),
    ],
    scaling.PART.name: [
        Target(scaling.RECORD, "1 000 000 records", 1.2, ("1 000 records",)),
        Target(scaling.RECORD_BYTES, "1 000 000 records", 1.2, ("1 000 records",)),
        Target(scaling.MEMORY, "1 000 000 records", 1.2, ("100 000 records",)),
        Target(scaling.ROUTE, "300 other routes", 1.05, ("0 other routes",)),
        Target(scaling.ROUTE, "3 000 other routes", 1.05, ("0 other routes",)),
        Target(scaling.CLAIMED, "100 operations", 1.2, ("1 operations",)),
        Target(scaling.CLAIMED, "1 000 operations", 1.2, ("1 operations",)),
        Target(scaling.UNCLAIMED, "100 operations", 1.2, ("1 operations",)),
        Target(scaling.UNCLAIMED, "1 000 operations", 1.2, ("1 operations",)),
    ],
    servers.PART.name: [
        Target("N = 1", APPLICATION, 1.15, (DUMPED,)),
        Target("N = 1", BLUEPRINT, 0.9, (FLASK,)),
    ],
    databases.SQLITE.name: [
        Target("N = 1", databases.OURS, 1.2, (databases.CORE,)),
        Target("N = 10 000", databases.OURS, 1.3, (databases.SQLITE3,)),
    ],
    databases.POSTGRESQL.name: [
        Target("N = 1", databases.OURS, 1.3, (databases.CORE,)),
        Target(SECONDS, databases.OURS, 1.3, (databases.STREAM,)),
        Target(
            MEGABYTES,
            databases.OURS,
            1 / 20,
            (
                databases.CORE,
                databases.PSYCOPG,
            ),
        ),
    ],
    neighbour.PART.name: [Target(neighbour.MEDIAN, neighbour.BESIDE_OURS, 1 / 10, (neighbour.BESIDE_DUMPED,))],
}
