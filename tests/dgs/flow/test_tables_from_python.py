"""Streams of a flow given as tables: columns, Arrow, data frames; and errors for other values."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dgs
from dgs.flow import FlowError, every, flow, on
from dgs.monoids import COUNT, SUM, FieldOf
from dgs.pico import from_stream, new, p, reduce
from tests.dgs.flow.flows import counted

HIT = dgs.kind("hit", key=str)
COLUMNS = {"ts": [1, 2, 12, 13, 30], "k": list("abaca"), "n": [5, 7, 1, 2, 3]}
ROWS = [(ts, {"ts": ts, "k": k, "n": n}) for ts, k, n in zip(*COLUMNS.values(), strict=True)]
FORMS = {
    "lists": COLUMNS,
    "arrays": {
        name: np.array(column) if name != "k" else pa.array(column) for name, column in COLUMNS.items()
    },
    "arrow": pa.table(COLUMNS),
    "record batch": pa.record_batch(COLUMNS),
    "frame": pd.DataFrame(COLUMNS),
    "two tables": [pa.table(COLUMNS).slice(0, 2), pa.table(COLUMNS).slice(2)],
    "elements": ROWS,
}


class Hits(dgs.Program):
    depends = dgs.Dependence((HIT, HIT, dgs.SAME_KEY))

    def init(self):
        return {}

    def update(self, state, event, emit):
        emit([event.tag.key, event.payload])
        return state


FLOWS = {
    "free": flow()(lambda rows: rows.filter_by("k", "a").map(lambda _, row: row["n"])),
    "sum": flow(clock=every(10))(
        lambda rows: rows.key_by("k").aggregate(FieldOf(SUM, "n")).each(lambda *it: list(it))
    ),
    "mixed": flow(clock=every(10))(lambda rows: rows.key_by("k").fold(lambda s, row: s * 2 + row["n"], 1)),
    "program": flow()(
        lambda rows: rows.into(Hits(), tag=lambda _, row: HIT(row["k"]), payload=lambda _, row: row["n"])
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FLOWS)
def test_a_table_equals_its_rows(name, form):
    expected = counted(FLOWS[name].denote({"rows": ROWS}))
    assert counted(FLOWS[name].denote({"rows": FORMS[form]})) == expected
    assert counted(dgs.run(FLOWS[name], streams={"rows": FORMS[form]}, verify=True).outputs) == expected


def test_markers_may_be_a_table():
    made = flow(clock=on("marks"))(lambda rows, marks: rows.aggregate(COUNT))
    streams = {"rows": pa.table(COLUMNS), "marks": {"ts": [5, 20]}}
    assert dgs.run(made, streams=streams).outputs == made.denote(streams) == [2, 2, 1]


def test_the_column_payload_is_the_value():
    made = flow()(lambda rows: rows.map(lambda _, value: value + 1))
    streams = {"rows": {"ts": [1, 2], "payload": [10, 20]}}
    assert dgs.run(made, streams=streams).outputs == made.denote(streams) == [11, 21]


def test_a_pipeline_takes_tables():
    joined = reduce(lambda a, b: {**a, "n": a["n"] + b["n"]})
    totals = new(from_stream("prices", structure="bag")) | new(p(joined, by=lambda row: row["k"]))
    assert {row["k"]: row["n"] for row in totals.run(streams={"prices": pa.table(COLUMNS)}).outputs} == {
        "a": 9,
        "b": 7,
        "c": 2,
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"at": [1]}, "a table without a column 'ts'"),
        ({"ts": [1, 2], "k": ["a"]}, "columns of several lengths"),
        ([{"ts": 1, "k": "a"}], "an element in row 0 that is no pair"),
        (7, "gets no list of elements"),
    ],
)
def test_other_values_than_streams_are_refused(given, problem):
    for call in (
        lambda: dgs.run(FLOWS["sum"], streams={"rows": given}),
        lambda: FLOWS["sum"].denote({"rows": given}),
    ):
        with pytest.raises(FlowError, match=problem) as caught:
            call()
        assert caught.value.codes == ["F12"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([("1", "a")], "row 0 whose ts is no integer"),
        ([(2, "a"), (1, "b")], "row 1 that is before the row above"),
    ],
)
def test_denote_takes_elements_in_order_of_time(given, problem):
    with pytest.raises(FlowError, match=problem):
        FLOWS["sum"].denote({"rows": given})
