"""Random MRQL: the translation, on the interpreter, equals nested loops over the parse tree."""

from random import Random

import pytest

pytest.importorskip("lark")

from dgs.query.evaluate import answers, zbag
from dgs.query.mrql import script
from dgs.query.mrql.mrql_parser import QueryText, parse_statement
from dgs.query.relation import Source
from dgs.query.types import INT, Schema, order_key
from tests.dgs.query.mrql.direct_mrql import value
from tests.dgs.query.mrql.drawn_mrql import Drawn

SOURCES = {"R": Source("R", Schema.of(k=INT, x=INT)), "S": Source("S", Schema.of(k=INT, y=INT))}


def case(seed):
    """Return a text with rows for its tables."""
    random = Random(seed)
    text = Drawn(random).select([], random.choice((1, 2)), 2)
    tables = {
        name: [(random.randint(0, 3), random.randint(0, 3)) for _ in range(random.randint(0, 4))]
        for name in SOURCES
    }
    return text, tables


def by_loops(text, tables):
    """Return the rows of nested loops."""
    names = {
        name: [dict(zip(SOURCES[name].columns.names, row, strict=True)) for row in rows]
        for name, rows in tables.items()
    }
    found = value(parse_statement(QueryText("q.mrql", text), text).value, names)
    return sorted((one if isinstance(one, tuple) else (one,) for one in found), key=order_key)


def by_algebra(text, tables):
    """Return the rows of the translation."""
    (found,) = answers(script(text, SOURCES), {name: zbag(rows) for name, rows in tables.items()}).values()
    return found


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_a_select_is_its_nested_loops(start):
    for seed in range(start, start + 50):
        text, tables = case(seed)
        assert by_algebra(text, tables) == by_loops(text, tables), (seed, text, tables)
