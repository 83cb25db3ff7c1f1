"""DuckDB: statements over Arrow tables, in one connection of one thread for each process. The only module that imports duckdb.

One thread, because the order of a float sum follows the threads, and a resumed run must repeat it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from dgs.errors import InternalError
from dgs.query.compact.arrow_rows import arrow_schema
from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS
from dgs.query.sql_text import type_text
from dgs.query.types import Schema

if TYPE_CHECKING:
    import duckdb

USER_FUNCTION = re.compile(r"\b(python_[0-9a-f]+_\w+)\(")
"""A call of a user's function in a statement."""

INSTALL = "Run pip install 'dgs[query]'."
_HERE = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of this thread. Raises QueryError Q503 if DuckDB is not installed."""
    found = getattr(_HERE, "connection", None)
    if found is None:
        try:
            import duckdb
        except ImportError:
            raise QueryError.of("Q503", "duckdb is not installed", INSTALL) from None
        found = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
        _HERE.connection = found
    return found


def run(statement: str, tables: Mapping[str, pa.Table], schema: Schema) -> pa.Table:
    """Return the rows of a statement over tables, with the types of a schema.

    Raises QueryError Q701 beyond 64 bits and Q704 for a cast or division that fails; InternalError for a wrong statement.
    """
    connection = _connection()
    import duckdb

    _know_functions(connection, statement)
    try:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(statement).to_arrow_table()
    except duckdb.OutOfRangeException as error:
        raise QueryError.of("Q701", _first_line(error), "Cast the values to float64 before.") from None
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        code = "Q701" if "INT128" in str(error) or "HUGEINT" in str(error) else "Q704"
        raise QueryError.of(code, _first_line(error)) from None
    except duckdb.Error as error:
        raise InternalError(problem=f"{_first_line(error)} in the statement {statement}") from error
    finally:
        for name in tables:
            connection.unregister(name)
    return found.cast(arrow_schema(schema)) if found.schema != arrow_schema(schema) else found


def _know_functions(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Tell DuckDB of the users' functions that a statement calls. A null argument makes a null."""
    known: set[str] = _HERE.__dict__.setdefault("functions", set())
    for name in {*USER_FUNCTION.findall(statement)} - known:
        function = FUNCTIONS[name]
        of = function.called_back or ()

        def strict(*given: Any, python: Callable[..., Any] = function.python) -> Any:
            return None if any(one is None for one in given) else python(*given)

        types: list[Any] = [type_text(one) for one in of]
        connection.create_function(
            name,
            cast("Any", strict),
            types,
            type_text(function.type(of)),
            null_handling=cast("Any", "special"),
        )
        known.add(name)


def _first_line(error: Any) -> str:
    text = str(error).split("\n", 1)[0]
    return (
        text.removeprefix("Conversion Error: ")
        .removeprefix("Out of Range Error: ")
        .removeprefix("Invalid Input Error: ")
    )
