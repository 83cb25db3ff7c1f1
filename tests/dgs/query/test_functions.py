"""The functions of the table, and casts: the interpreter equals DuckDB on values where engines often differ."""

import datetime as dt
import itertools

import pytest
from sqlglot import exp

from dgs.query import duck
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS
from dgs.query.scalar import bound, call, column
from dgs.query.sql_text import scalar_text, type_text
from dgs.query.types import BOOL, FLOAT, INT, NULL, TEXT, TIME, Schema, list_of, one_float

NAN, INFINITY = float("nan"), float("inf")
TIMES = tuple(map(dt.datetime.fromisoformat, ("2020-02-29 01:02:03", "1969-12-31 23:59:59.500000")))
VALUES = {
    INT: (None, 0, 1, -1, 2, 3, -7, 25, 2**53 + 1),
    FLOAT: (None, 0.0, 0.5, -0.5, 1.5, -2.5, 1e300, 123456.789, 2.675, NAN, INFINITY, -INFINITY, 1e-7),
    TEXT: (
        None,
        "",
        "a",
        "A",
        "ab",
        " a ",
        "\u00c9",
        "\u00df",
        "\u0130",
        "e\u0301",
        "\U0001f44d\U0001f3fd",
        "%",
        "x y",
    ),
    BOOL: (None, True, False),
    TIME: (None, *TIMES),
    list_of(INT): (None, (), (1,), (3, 1, None, 1)),
    list_of(FLOAT): (None, (), (0.5, NAN, None, -1.0)),
    list_of(TEXT): (None, ("b", "a", None, "a")),
    NULL: (None,),
}
OF_SQL = [
    name for name, one in FUNCTIONS.items() if "query.pig" not in str(getattr(one.python, "__module__", ""))
]
"""The functions of SQL. Those of Pig are added once Pig is imported."""
OUT_OF_RANGE = {
    ("range", 2**53 + 1),
    ("round", 2**53 + 1),
    ("as_decimal", 2**53 + 1),
    ("substring", 2**53 + 1),
    ("left", 2**53 + 1),
    ("right", 2**53 + 1),
    ("add_months", 2**53 + 1),
    ("repeat", 2**53 + 1),
    ("lpad", 2**53 + 1),
    ("rpad", 2**53 + 1),
    ("generate_series", 2**53 + 1),
}
TEXTS = (
    "", " 12 ", "+7", "1.5", "2.5", "-2.5", ".5", "5.", "1e3", "1e400", "1_000", "0x10", "--1", "nan", "-inf", "\uff12", "true", "T", "yes",
    " no ", "tru", "2020-01-01", "2020-1-1", "2020-01-01 10:00", "2020-01-01T10:00:00Z", "2020-01-01 10:00:00.1234567", "2020-13-01",
    "2020-01-01 24:00:00", "20200101", "12:00",
)  # fmt: skip


def combinations(name):
    """Return the schemas that a function takes, with rows of values."""
    function = FUNCTIONS[name]
    for count in sorted({function.least, min(function.most, function.least + 1, 3)}):
        for types in itertools.product(VALUES, repeat=count):
            schema = Schema(tuple((f"a{place}", of) for place, of in enumerate(types)))
            if accepts(name, schema):
                rows = list(itertools.product(*(VALUES[of] for of in types)))
                yield (
                    schema,
                    [row for row in rows if not any((name, one) in OUT_OF_RANGE for one in row)][:400],
                )


def accepts(name, schema):
    try:
        bound(call(name, *map(column, schema.names)), schema)
    except QueryError:
        return False
    return True


def in_duckdb(scalar, schema, rows, of):
    wanted = Schema((("r", of),))
    statement = f"SELECT CAST({scalar_text(scalar, schema)} AS {type_text(of)}) AS r FROM t"
    return [row[0] for row in from_arrow(duck.run(statement, {"t": to_arrow(rows, schema)}, wanted), wanted)]


def fails_or(value):
    """Return the result of a function, or that it fails on its values."""
    try:
        found = value()
    except QueryError as error:
        return "fails" if error.code in ("Q701", "Q703", "Q704") else str(error)
    return plain(found)


def plain(value):
    """Return a value in one form: floats that are whole as integers, no negative zero, no last digits."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, float):
        value = one_float(value)
        return f"{value:.12g}"
    return f"{value:.12g}" if type(value) is int and abs(value) < 2**40 else repr(value)


@pytest.mark.parametrize("name", sorted({*OF_SQL} - {"intdiv", "array", "pi", "like_escape"}))
def test_a_function_equals_that_of_duckdb(name):
    for schema, rows in combinations(name):
        scalar = call(name, *map(column, schema.names))
        meaning = bound(scalar, schema)
        expected = [fails_or(lambda row=row, of=meaning: of(row)) for row in rows]
        assert "fails" not in expected or len(schema) < 3
        fine = [row for row, one in zip(rows, expected, strict=True) if one != "fails"]
        found = in_duckdb(scalar, schema, fine, meaning.type)
        expected = [one for one in expected if one != "fails"]
        pairs = zip(fine, expected, map(plain, found), strict=True)
        assert [(row, here, there) for row, here, there in pairs if here != there] == []


@pytest.mark.parametrize("of", [INT, FLOAT, TEXT, BOOL, TIME], ids=str)
@pytest.mark.parametrize("wanted", ["BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN", "TIMESTAMP"])
def test_a_cast_equals_that_of_duckdb(of, wanted):
    schema = Schema((("a", of),))
    scalar = exp.Cast(this=column("a"), to=exp.DataType.build(wanted, dialect="duckdb"))
    if (wanted == "TIMESTAMP" and of not in (TEXT, TIME)) or (
        of is TIME and wanted not in ("VARCHAR", "TIMESTAMP")
    ):
        with pytest.raises(QueryError, match="cannot be cast"):
            bound(scalar, schema)
        return
    meaning = bound(scalar, schema)
    for value in (*VALUES[of], *(TEXTS if of is TEXT else ())):
        here = fails_or(lambda value=value: meaning((value,)))
        there = fails_or(lambda value=value: in_duckdb(scalar, schema, [(value,)], meaning.type)[0])
        assert (value, here) == (value, there)
