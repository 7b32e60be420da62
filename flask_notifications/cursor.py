"""Rows of psycopg as they arrive, for SQLAlchemy (imported by ``sql`` where psycopg is the driver).

A cursor on the server costs a small answer four plain statements; a plain statement keeps a large answer in memory.
What serves both is a plain statement whose rows are taken from the connection while they come in. Knows no statement.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, CursorResult, Executable

# Rows taken from the connection at a time; before libpq 17 it gives them singly.
_ROWS = 256 if psycopg.capabilities.has_stream_chunked() else 1

Execute = Callable[[Connection, Executable, dict[str, Any]], CursorResult[Any]]


class StreamingCursor(psycopg.Cursor[Any]):
    """Take the place of a cursor on the server: the same methods, without its round trips."""

    def __init__(self, connection: "psycopg.Connection[Any]", **_of_the_server: Any) -> None:
        super().__init__(connection)
        self._stream: Generator[Any, None, None] | None = None
        self._rows: Iterator[Any] = iter(())

    @property
    def description(self) -> list[psycopg.Column]:
        """The columns; none of them when there are no rows, since psycopg has not seen any then."""
        return super().description or []

    def execute(self, query: Any, params: Any = None, **_options: Any) -> "StreamingCursor":
        """Start a statement; what it fails with is raised here, since its first row is awaited."""
        stream = cast("Generator[Any, None, None]", self.stream(query, params, size=_ROWS))
        self._stream, self._rows = stream, chain(list(islice(stream, 1)), stream)
        return self

    def fetchmany(self, size: int = 0) -> list[Any]:
        """Return the next rows, none at the end."""
        return list(islice(self._rows, size or self.arraysize))

    def close(self) -> None:
        """Let go of the rows that were not fetched."""
        if self._stream is not None:
            self._stream.close()
        super().close()


def streaming(execute: Execute) -> Execute:
    """Return a function that executes a statement, and has a ``StreamingCursor`` where SQLAlchemy has another."""

    def executed(connection: Connection, statement: Executable, values: dict[str, Any]) -> CursorResult[Any]:
        driver: Any = connection.connection.driver_connection
        own = driver.server_cursor_factory
        driver.server_cursor_factory = StreamingCursor
        try:
            return execute(connection, statement, values)
        finally:
            driver.server_cursor_factory = own

    return executed
