"""DuckDB: statements over Arrow tables, in one connection of one thread for each process. The only module that imports duckdb.

One thread, because the order of a float sum follows the threads, and a resumed run must repeat it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from dgs.errors import InternalError
from dgs.query.compact.arrow_rows import arrow_schema, in_one_form
from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS, USER_FUNCTION, null_of_null
from dgs.query.split.exact_sums import CALLED_BACK, MACROS
from dgs.query.sql_text import type_text
from dgs.query.types import Schema

if TYPE_CHECKING:
    import duckdb

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
    except (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raised = _HERE.__dict__.pop("raised", None)
        raise raised or _of_values(_first_line(error)) from None
    except duckdb.Error as error:
        raise InternalError(problem=f"{_first_line(error)} in the statement {statement}") from error
    finally:
        for name in tables:
            connection.unregister(name)
    return in_one_form(found.cast(arrow_schema(schema)) if found.schema != arrow_schema(schema) else found)


@lru_cache(maxsize=4)
def parsed(text: str) -> dict[str, Any]:
    """Return DuckDB's parse tree of a text of SQL, or its `error`; nothing if DuckDB or its JSON is not installed."""
    if find_spec("duckdb") is None:
        return {}
    import duckdb

    try:
        rows = _connection().execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    except duckdb.CatalogException:
        return {}
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


@cache
def function_names() -> frozenset[str]:
    """Return the names of DuckDB's functions; none if it is not installed."""
    if find_spec("duckdb") is None:
        return frozenset()
    rows = _connection().execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    return frozenset(name.lower() for (name,) in rows)


def _know_functions(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Register the functions of users, and of exact sums, that a statement calls. A null argument gives null."""
    known: set[str] = _HERE.__dict__.setdefault("functions", set())
    if "float_bin(" in statement and "float_bin" not in known:
        known.add("float_bin")
        for macro in MACROS:
            connection.execute(macro)
    wanted: dict[str, tuple[Callable[..., Any], list[str], str]] = {}
    for name in USER_FUNCTION.findall(statement):
        function = FUNCTIONS[name]
        of = function.called_back or ()
        result = type_text(function.type(of))
        # as text, since DuckDB turns a returned NaN into null
        is_float = result == "DOUBLE"
        python = _as_text(function.python) if is_float else function.python
        wanted[name] = python, [type_text(one) for one in of], "VARCHAR" if is_float else result
    for name, (python, listed) in CALLED_BACK.items():
        if f"{name}(" in statement:
            wanted[name] = python, [listed], "VARCHAR"
    for name in wanted.keys() - known:
        python, types, result = wanted[name]
        called = cast("Any", _strict(python, len(types)))
        connection.create_function(
            name, called, cast("Any", types), cast("Any", result), null_handling=cast("Any", "special")
        )
        known.add(name)


FAULTS = (
    (
        r"Could not convert string '(?P<value>.*)' to (?P<kind>\w+)",
        "Q704",
        "cast: '{value}' cannot be {kind}",
    ),
    (
        r'timestamp field (?:format|value out of range): "(?P<value>.*?)"',
        "Q704",
        "cast: '{value}' is no time",
    ),
    (r"with value (?P<value>-?(?:nan|inf)) can't", "Q704", "cast: {value} cannot be int64"),
    (r"with value (?P<value>\S+) can't", "Q701", "{value} does not fit 64 bits"),
    (r"Overflow in .* of INT64 \((?P<value>[^)]*)\)", "Q701", "{value} does not fit 64 bits"),
    (r"Overflow on (?P<value>.*)", "Q701", "{value} does not fit 64 bits"),
    (r"Division by zero", "Q704", "integer division by 0"),
)
"""The faults of values that DuckDB reports, with our code and text of each."""
KINDS = {"INT64": "int64", "DOUBLE": "float64", "BOOL": "bool"}


def _of_values(said: str) -> QueryError:
    """Return the error for values on which a function fails, from DuckDB's message."""
    for pattern, code, problem in FAULTS:
        found = re.search(pattern, said)
        if found is not None:
            parts = {name: KINDS.get(text, text) for name, text in found.groupdict().items()}
            remedy = "Cast the values to float64 before." if code == "Q701" else ""
            return QueryError.of(code, problem.format(**parts), remedy)
    return QueryError.of("Q704", f"a function fails on its values: {said}")


def _as_text(python: Callable[..., Any]) -> Callable[..., Any]:
    def text(*given: Any) -> str | None:
        found = python(*given)
        return None if found is None else repr(found)

    return text


def _strict(python: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a function of `count` arguments that returns null if an argument is null. DuckDB reads its signature.

    Its exception is kept, since DuckDB passes on only the text.
    """
    called = null_of_null(python)

    def strict(*given: Any) -> Any:
        try:
            return called(*given)
        except BaseException as error:
            _HERE.raised = error
            raise

    parameters = [Parameter(f"a{place}", Parameter.POSITIONAL_ONLY) for place in range(count)]
    strict.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return strict


def _first_line(error: Any) -> str:
    text = str(error).split("\n", 1)[0]
    return (
        text.removeprefix("Conversion Error: ")
        .removeprefix("Out of Range Error: ")
        .removeprefix("Invalid Input Error: ")
    )
