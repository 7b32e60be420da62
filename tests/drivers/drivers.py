"""The database drivers under test, the SQL that the tests need in each dialect, and a
storage on its tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, TextClause, text

from flask_notifications.sql import SQLAlchemyStorage

TABLES = """
CREATE TABLE users (session VARCHAR(40), login VARCHAR(40), is_admin BOOLEAN);
CREATE TABLE alerts (id INTEGER, owner VARCHAR(40), document TEXT);
INSERT INTO users VALUES ('a1', 'alice', false), ('b2', 'bob', false), ('c3', 'carol', true);
INSERT INTO alerts VALUES
    (1, 'alice', '{"name": "first",  "n": 1.50, "ü": null}'), (2, 'alice', '{"name":"second"}'), (3, 'bob', '{"n":3}')
"""
DOCUMENTS = "SELECT document FROM alerts WHERE owner = {} ORDER BY id"
DOCUMENTS_OF_THE_CALLER = DOCUMENTS.format(":login")


def create_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        for statement in TABLES.split(";"):
            connection.execute(text(statement.replace(":", r"\:")))


def may_see_account(caller: Row[Any], account_id: str) -> bool:
    return bool(caller.is_admin) or caller.login == account_id


def storage_on(
    engine: Engine, documents: Any = DOCUMENTS_OF_THE_CALLER, **changed: Any
) -> SQLAlchemyStorage:
    """Return a storage with other arguments, of another class as ``kind``; ``None``
    leaves an argument out.
    """
    arguments: dict[str, Any] = {
        "session_query": "SELECT login, is_admin FROM users WHERE session = :session_id",
        "current_user_query": documents,
        "account_query": DOCUMENTS.format(":account_id"),
        "account_exists_query": "SELECT 1 FROM users WHERE login = :account_id",
        "may_see_account": may_see_account,
    }
    kind: type[SQLAlchemyStorage] = changed.pop("kind", SQLAlchemyStorage)
    arguments.update(changed)
    for name, value in list(arguments.items()):
        if value is None:
            del arguments[name]
    return kind(engine, **arguments)


def read(
    storage: SQLAlchemyStorage, session_id: str, account_id: str | None = None
) -> Iterator[Any]:
    """Return the records of a session's user, or of an account."""
    caller = storage.resolve_session(session_id)
    assert caller is not None
    if account_id is None:
        return storage.current_user_notifications(caller)
    return storage.account_notifications(caller, account_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The statements and expressions that the tests need, in the SQL of a database;
    ``{}`` is a number or a name.
    """

    name: str
    numbers: str  # a table of the numbers n from 1
    document: (
        str  # a JSON document: the parameter :begin, then n, then the parameter :end
    )
    tenant: str  # a statement that changes a setting of the connection
    failure: str  # an expression that fails when n is 3000
    # Only for database servers.
    endless: str = ""  # a statement that takes far longer than a test
    limit: str = ""  # a time limit of 0.2 seconds for statements
    connection: str = ""  # a query for the number of the connection
    running: str = ""  # a query for the numbers of the connections that execute the endless statement in a database
    cancel: str = ""  # end a statement
    disconnect: str = ""  # end a connection


def select_documents(dialect: Dialect, count: int) -> TextClause:
    """Return a statement whose result is ``count`` numbered documents."""
    statement = (
        f"SELECT {dialect.document} AS document FROM {dialect.numbers.format(count)}"  # noqa: S608 - constants
    )
    return text(statement).bindparams(begin='{"n":', end=f',"text":"{"t" * 150}"}}')


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
    """A driver; ``flat`` if it streams the result, ``exclusive`` if its connection
    allows one open result only.
    """

    url: str
    module: str
    dialect: Dialect
    flat: bool = True
    exclusive: bool = False


DRIVERS = {
    "sqlite3": Driver(url="sqlite", module="sqlite3", dialect=SQLITE),
    "psycopg": Driver(url="postgresql+psycopg", module="psycopg", dialect=POSTGRESQL),
    "psycopg2": Driver(
        url="postgresql+psycopg2", module="psycopg2", dialect=POSTGRESQL
    ),
    "pg8000": Driver(url="postgresql+pg8000", module="pg8000", dialect=POSTGRESQL),
    "PyMySQL": Driver(
        url="mysql+pymysql", module="pymysql", dialect=MARIADB, exclusive=True
    ),
    "mysqlclient": Driver(
        url="mysql+mysqldb", module="MySQLdb", dialect=MARIADB, exclusive=True
    ),
    "MySQL Connector/Python": Driver(
        url="mysql+mysqlconnector",
        module="mysql.connector",
        dialect=MARIADB,
        flat=False,
    ),
    "MariaDB Connector/Python": Driver(
        url="mariadb+mariadbconnector", module="mariadb", dialect=MARIADB, flat=False
    ),
}
