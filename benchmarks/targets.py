"""The targets for the cost of the library. Each compares rows of one part with each other."""

from benchmarks import (
    databases,
    in_process,
    instructions,
    middleware,
    million,
    neighbour,
    scaling,
    schema,
    servers,
    usage,
)
from benchmarks.candidates import (
    APPLICATION,
    BLUEPRINT,
    BYTES,
    DJANGO,
    DUMPED,
    FALCON,
    FLASK,
    ITERATOR,
    JSONIFY,
    REST,
    SMOREST,
    STARLETTE,
)
from benchmarks.middleware import MATCHED_HEADER, MATCHED_QUERY, PROXY_FIX, PROXY_FIX_UNUSED, UNMATCHED
from benchmarks.parts import Target
from benchmarks.processes import MEGABYTES, SECONDS

_PEERS = (DUMPED, FALCON, STARLETTE, DJANGO, FLASK)


TARGETS = {
    in_process.PART.name: [
        Target("N = 1", BLUEPRINT, 0.95, (FLASK,)),
        Target(in_process.REFUSED, BLUEPRINT, 0.6, (FLASK,)),
        Target("N = 100", APPLICATION, 1.5, (DUMPED,)),
        Target("N = 100", APPLICATION, 1 / 8, (JSONIFY,)),
        Target("N = 100", APPLICATION, 1 / 20, (SMOREST,)),
        Target("N = 100", APPLICATION, 1 / 20, (REST,)),
        Target("N = 10 000", APPLICATION, 1.1, (DUMPED,)),
        Target("N = 10 000", APPLICATION, 1 / 10, (JSONIFY,)),
        Target("N = 10 000", APPLICATION, 1 / 40, (SMOREST,)),
        Target("N = 10 000", APPLICATION, 1 / 40, (REST,)),
        Target("N = 10 000", BYTES, 1.0, (DUMPED,)),
    ],
    million.PART.name: [
        Target(SECONDS, APPLICATION, 1.0, _PEERS),
        Target(MEGABYTES, APPLICATION, 1 / 20, _PEERS),
        Target(SECONDS, BYTES, 0.75, _PEERS),
    ],
    schema.PART.name: [Target(schema.COLUMN, schema.OURS, 1.05, (schema.DUMP,))],
    middleware.PART.name: [
        Target(middleware.ADDED, UNMATCHED, 1.5, (PROXY_FIX_UNUSED,)),
        Target(middleware.ADDED, MATCHED_HEADER, 1.5, (PROXY_FIX,)),
        Target(middleware.ADDED, MATCHED_QUERY, 2.5, (PROXY_FIX,)),
    ],
    instructions.PART.name: [Target(instructions.RESPONSE, BLUEPRINT, 0.95, (FLASK,))],
    scaling.PART.name: [
        Target(scaling.RECORD, "1 000 000 records", 1.2, ("1 000 records",)),
        Target(scaling.RECORD_BYTES, "1 000 000 records", 1.2, ("1 000 records",)),
        Target(scaling.MEMORY, "1 000 000 records", 1.2, ("100 000 records",)),
        Target(scaling.ROUTE, "300 other routes", 1.05, ("0 other routes",)),
        Target(scaling.ROUTE, "3 000 other routes", 1.05, ("0 other routes",)),
        Target(scaling.MATCHED, "100 operations", 1.5, ("1 operation",)),
        Target(scaling.MATCHED, "1 000 operations", 1.5, ("1 operation",)),
        Target(scaling.UNMATCHED, "100 operations", 1.2, ("1 operation",)),
        Target(scaling.UNMATCHED, "1 000 operations", 1.2, ("1 operation",)),
    ],
    servers.PART.name: [
        Target("N = 1", APPLICATION, 1.05, (DUMPED,)),
        Target("N = 1", BLUEPRINT, 0.95, (FLASK,)),
        Target("N = 10 000", APPLICATION, 1.1, (DUMPED,)),
        Target("N = 10 000", BLUEPRINT, 1.1, (FLASK,)),
        Target("N = 10 000", ITERATOR, 1.35, (DUMPED,)),
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
    neighbour.PART.name: [Target(neighbour.MEDIAN, neighbour.DURING_OURS, 1 / 10, (neighbour.DURING_DUMPED,))],
    usage.REQUESTS.name: [
        Target(usage.MATCHED, usage.WITH, 1.25, (usage.WITHOUT,)),
        Target(usage.UNMATCHED, usage.WITH, 1.05, (usage.WITHOUT,)),
    ],
    usage.STORES.name: [
        Target(usage.SQLITE, usage.ONE, 1 / 10, (usage.MONTH,)),
        Target(usage.POSTGRESQL, usage.ONE, 1 / 10, (usage.MONTH,)),
    ],
}
