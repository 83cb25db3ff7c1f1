"""Each function of the table has the value on Spark that it has in the interpreter."""

import itertools

import pytest

pytest.importorskip("sqlglot")

from dgs.query.compact.arrow_rows import to_arrow
from dgs.query.functions import FUNCTIONS
from dgs.query.scalar import bound, call, column
from dgs.query.spark.spark_text import scalar_text, spark_type
from dgs.query.types import FLOAT, INT, Schema
from tests.dgs.query.test_functions import (
    OF_SQL,
    OUT_OF_RANGE,
    VALUES,
    accepts,
    combinations,
    fails_or,
    plain,
)

ELSEWHERE = ("pi", "like_escape", "lower", "upper")
"""Functions that are not compared: in Spark they take only constants, or treat letters such as "ß" differently."""


COMPARED = [name for name in OF_SQL if name not in ELSEWHERE and not name.startswith("float_")]


def as_tuples(value):
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def compared(spark, types, functions):
    """Return the rows on which functions differ on Spark."""
    schema = Schema(tuple((f"a{place}", of) for place, of in enumerate(types)))
    rows = list(itertools.product(*(VALUES[of] for of in types)))[:: 3 if len(types) > 2 else 1][:500]
    numbered = [(place, *row) for place, row in enumerate(rows)]
    table = to_arrow(numbered, Schema((("id", INT), *schema.fields)))
    rows_there = spark.createDataFrame(table).coalesce(1)
    texts, expected = [], {}
    for name in functions:
        scalar = call(name, *map(column, schema.names))
        of = bound(scalar, schema)
        expected[name] = {
            place: value
            for place, row in enumerate(rows)
            if not any((name, one) in OUT_OF_RANGE for one in row)
            and (value := fails_or(lambda row=row, of=of: of(row))) != "fails"
        }
        fine = ", ".join(map(str, expected[name]))
        value = f"CAST({scalar_text(scalar, schema)} AS {spark_type(of.type)})"
        texts.append(f"CASE WHEN id IN ({fine}) THEN {value} END")
    for found in rows_there.selectExpr("id", *texts).collect():
        for name, value in zip(functions, found[1:], strict=True):
            wanted = expected[name].get(found[0])
            here = plain(as_tuples(value))
            if wanted not in (None, here):
                yield name, rows[found[0]], wanted, here


def test_functions_of_a_float(spark):
    functions = [
        one for one in COMPARED if FUNCTIONS[one].least <= 1 and accepts(one, Schema((("a0", FLOAT),)))
    ]
    assert "trunc" in functions
    assert list(compared(spark, (FLOAT,), functions)) == []


@pytest.mark.slow
def test_functions_of_everything(spark):
    by_types = {}
    for name in COMPARED:
        for schema, _ in combinations(name):
            if all(one.kind != "null" for one in schema.types):
                by_types.setdefault(schema.types, []).append(name)
    assert [one for types, names in by_types.items() for one in compared(spark, types, names)] == []
