"""Outputs as frames of three libraries, and back as streams."""

from dataclasses import dataclass
from typing import NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dgs
from dgs.errors import UsageError

HIT = dgs.kind("hit", key=str)
FRAME = {"ts": [1, 2, 2], "who": ["a", "b", "a"], "n": [5, 7, 9]}


class Place(NamedTuple):
    who: str
    n: int


@dataclass
class Hit:
    who: str
    n: int


FORMS = {
    "records": (lambda event: {"who": event.tag.key, "n": event.payload}, ["who", "n"]),
    "named tuples": (lambda event: Place(event.tag.key, event.payload), ["who", "n"]),
    "dataclasses": (lambda event: Hit(event.tag.key, event.payload), ["who", "n"]),
    "tuples": (lambda event: (event.tag.key, event.payload), ["value_0", "value_1"]),
}


class Hits(dgs.Program):
    kinds = (HIT,)
    depends = dgs.Dependence((HIT, HIT, dgs.ALWAYS))
    form = staticmethod(FORMS["records"][0])

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(self.form(event))
        return state + 1


def ran(frame, form="records", **said):
    program = Hits()
    program.form = FORMS[form][0]
    said = {"key": "who", "payload": "n"} | said
    return dgs.run(program, streams={"hits": dgs.stream(frame, **said)})


def rows_of(frame):
    return [tuple(row.values()) for row in pa.table(frame).to_pylist()]


@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_typed_columns(form):
    names = FORMS[form][1]
    table = ran(FRAME, form).to_arrow()
    assert table.column_names == ["ts", "stream", "kind", "key", *names]
    assert [table.schema.field(name).type for name in names] == [pa.string(), pa.int64()]


def test_three_libraries_get_the_same_rows():
    run = ran(FRAME)
    expected = [
        (ts, "hits", "hit", who, who, n)
        for ts, who, n in zip(FRAME["ts"], FRAME["who"], FRAME["n"], strict=True)
    ]
    assert rows_of(run.to_arrow()) == rows_of(run.to_pandas()) == rows_of(run.to_polars()) == expected
    assert isinstance(run.to_pandas(), pd.DataFrame)
    assert isinstance(run.to_polars(), pl.DataFrame)
    assert duckdb.sql("select sum(n) from run").fetchall() == [(21,)]


@pytest.mark.parametrize("huge", [2**80, 10**5000], ids=["80 bits", "5,001 digits"])
def test_integers_that_arrow_does_not_hold_are_a_sentence_and_are_shown(huge):
    run = dgs.run(Hits(), streams={"hits": [(HIT("a"), 1, huge)]})
    with pytest.raises(UsageError, match="no common Arrow type"):
        run.to_arrow()
    assert "<table>" in run.outputs._repr_html_()


def test_a_run_iterates_over_its_outputs():
    run = ran(FRAME)
    assert list(run) == run.outputs
    assert len(run) == 3
    assert bool(ran({"ts": [], "who": [], "n": []}))


@pytest.mark.parametrize(
    "made",
    [
        lambda run: run,
        *(lambda run, name=name: getattr(run, name)() for name in ("to_pandas", "to_polars", "to_arrow")),
    ],
)
def test_outputs_go_in_again(made):
    run = ran(FRAME)
    assert ran(made(run)).outputs == run.outputs
