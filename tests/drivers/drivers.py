"""The database drivers under test, and the SQL that the tests need in each dialect."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The statements and expressions that the tests need, in the SQL of a database; ``{}`` is a number or a name."""

    name: str
    numbers: str  # a table of the numbers n from 1
    document: str  # a JSON document: the parameter :begin, then n, then the parameter :end
    tenant: str  # a statement that changes a setting of the connection
    failure: str  # an expression that fails when n is 3000
    # Only for database servers.
    endless: str = ""  # a statement that takes far longer than a test
    limit: str = ""  # a time limit of 0.2 seconds for statements
    connection: str = ""  # a query for the number of the connection
    running: str = ""  # a query for the numbers of the connections that execute the endless statement in a database
    cancel: str = ""  # end a statement
    disconnect: str = ""  # end a connection


SQLITE = Dialect(
    name="sqlite",
    numbers="(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s) AS numbers",
    document=":begin || n || :end",
    tenant="PRAGMA user_version",
    failure="abs(2999 - n - 9223372036854775807)",
)
POSTGRESQL = Dialect(
    name="postgresql",
    numbers="generate_series(1, {}) AS numbers(n)",
    document="CAST(:begin AS TEXT) || n || CAST(:end AS TEXT)",
    tenant="SET \"app.tenant\" = 'alice'",
    failure="1 / (n - 3000)",
    endless="SELECT pg_sleep(20)",
    limit="SET statement_timeout = 200",
    connection="SELECT pg_backend_pid()",
    running="SELECT pid FROM pg_stat_activity WHERE datname = '{}' AND wait_event = 'PgSleep'",
    cancel="SELECT pg_cancel_backend({})",
    disconnect="SELECT pg_terminate_backend({}, 5000)",
)
MARIADB = Dialect(
    name="mysql",
    numbers="(SELECT seq AS n FROM seq_1_to_{}) AS numbers",
    document="CONCAT(:begin, n, :end)",
    tenant="SET @tenant = 'alice'",
    failure="(SELECT seq FROM seq_1_to_2 WHERE seq <= n - 2998)",
    endless="SELECT COUNT(*) FROM seq_1_to_1000000 a JOIN seq_1_to_1000000 b WHERE a.seq * b.seq = -1",
    limit="SET SESSION max_statement_time = 0.2",
    connection="SELECT CONNECTION_ID()",
    running="SELECT id FROM information_schema.processlist WHERE db = '{}' AND LEFT(info, 12) = 'SELECT COUNT'",
    cancel="KILL QUERY {}",
    disconnect="KILL {}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver; ``flat`` if it streams the result, ``exclusive`` if its connection allows one open result only."""

    url: str
    module: str
    dialect: Dialect
    flat: bool = True
    exclusive: bool = False


DRIVERS = {
    "sqlite3": Driver(url="sqlite", module="sqlite3", dialect=SQLITE),
    "psycopg": Driver(url="postgresql+psycopg", module="psycopg", dialect=POSTGRESQL),
    "psycopg2": Driver(url="postgresql+psycopg2", module="psycopg2", dialect=POSTGRESQL),
    "pg8000": Driver(url="postgresql+pg8000", module="pg8000", dialect=POSTGRESQL),
    "PyMySQL": Driver(url="mysql+pymysql", module="pymysql", dialect=MARIADB, exclusive=True),
    "mysqlclient": Driver(url="mysql+mysqldb", module="MySQLdb", dialect=MARIADB, exclusive=True),
    "MySQL Connector/Python": Driver(url="mysql+mysqlconnector", module="mysql.connector", dialect=MARIADB, flat=False),
    "MariaDB Connector/Python": Driver(url="mariadb+mariadbconnector", module="mariadb", dialect=MARIADB, flat=False),
}
