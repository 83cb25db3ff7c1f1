"""`dgs.query`: batches in any order, also from data frames, give the answer over all rows."""

import pyarrow as pa
import pytest

import dgs
from dgs.query.errors import QueryError

TEXT = "select a.g, count(*) n, sum(b.v) s from a join b on a.k = b.k group by a.g"
LEFT = [{"k": 1, "g": "x"}, {"k": 2, "g": "y"}, {"k": 1, "g": "y"}]
RIGHT = [{"k": 1, "v": 10}, {"k": 1, "v": None}, {"k": 3, "v": 5}]
WHOLE = [{"g": "x", "n": 2, "s": 10}, {"g": "y", "n": 2, "s": 10}]


def test_batches_in_any_order_give_the_whole():
    query = dgs.query(TEXT, schemas=schemas())
    states = [query.h(b=RIGHT[:1]), query.h(a=LEFT[:2]), query.h(a=LEFT[2:], b=RIGHT[1:])]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        state = query.program.identity()
        for number in order:
            state = query.merge(state, states[number])
        assert query.answer(state) == WHOLE


def test_columns_and_arrow_tables_are_batches():
    query = dgs.query(TEXT, schemas=schemas())
    query.extend(a=pa.Table.from_pylist(LEFT))
    assert query.extend(b={"k": [1, 1, 3], "v": [10, None, 5]}) == WHOLE


def test_the_program_runs_as_any_other():
    query = dgs.query("select max(v) m from b", schemas=schemas())
    rows = [("b", ts, one) for ts, one in enumerate(RIGHT)]
    run = dgs.run(query.program, streams={"b": rows, "ask": [("answer", 9, None)]}, runtime="local")
    assert run.outputs == [{"m": 10}]


def test_an_unknown_table_is_named():
    query = dgs.query(TEXT, schemas=schemas())
    with pytest.raises(QueryError, match="Q201: no table 'c'"):
        query.h(c=LEFT, a=LEFT)


def test_a_row_that_does_not_fit_is_q703():
    query = dgs.query(TEXT, schemas=schemas())
    with pytest.raises(QueryError) as wrong:
        query.h(a=[{"k": "one", "g": "x"}])
    assert wrong.value.code == "Q703"


def schemas():
    from dgs.query.types import INT, TEXT, Schema

    return {"a": Schema.of(k=INT, g=TEXT), "b": Schema.of(k=INT, v=INT)}
