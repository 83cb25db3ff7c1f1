"""States and positions of checkpoints as typed columns; values of mixed types stay JSON."""

import json

import pyarrow as pa
import pytest

import dgs
from dgs.spark_bridge.data_source import readers
from dgs.spark_bridge.data_source.typed_rows import kind_of, typed
from tests.spark_bridge.data_source.test_run_tables import read


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (7, pa.int64()),
        (0.5, pa.float64()),
        (True, pa.bool_()),
        ({"ann": 3}, pa.map_(pa.string(), pa.int64())),
        ({"n": 3, "name": "ann"}, pa.struct([("n", pa.int64()), ("name", pa.string())])),
        *((state, pa.string()) for state in (None, "text", [1], {}, {"n": None}, {"n": [1]}, 2**63)),
    ],
)
def test_state_has_the_type_of_its_values_or_is_json(state, kind):
    assert kind_of(json.dumps(state)) == kind
    [found] = typed(pa.table({"state": [json.dumps(state)]}), pa.schema([("state", kind)]))[
        "state"
    ].to_pylist()
    assert (dict(found) if pa.types.is_map(kind) else found) == (
        json.dumps(state) if kind == pa.string() else state
    )


@pytest.mark.parametrize("kind", [kind_of("1"), kind_of('{"a":1}'), kind_of('{"a":1,"b":"x"}')])
@pytest.mark.parametrize("state", ['"text"', '{"a":"x"}', '{"a":1,"b":2}', "0.5"])
def test_state_that_does_not_fit_the_type_of_the_newest_is_null(state, kind):
    fits = pa.types.is_map(kind) and state == '{"a":1,"b":2}'
    [found] = typed(pa.table({"state": [state]}), pa.schema([("state", kind)]))["state"].to_pylist()
    assert (found is not None) == fits


class Counts(dgs.Program):
    """The count of each word."""

    kinds = (dgs.kind("n"),)

    def init(self):
        return {}

    def update(self, state, event, emit):
        return {**state, event.payload: state.get(event.payload, 0) + 1}


def test_checkpoints_of_a_run_have_typed_states_and_positions(tmp_path):
    run = dgs.run(
        Counts,
        streams={"s": [("n", ts, word) for ts, word in enumerate("abcab")]},
        runtime="local",
        settings={"checkpoint": {"every": "1h"}},
        run_dir=tmp_path / "run",
    ).run_dir
    [row] = read(run, what="checkpoints")[0]
    assert dict(row["state"]) == {"a": 2, "b": 2, "c": 1}
    [part] = dict(row["positions"])["s"]
    assert (part["split"], part["ended"], row["name"]) == (0, False, "run")
    assert part["ts"] >= 4
    as_text = readers.reader(
        {"run": str(run), "what": "checkpoints"}, readers.from_arrow_schema(readers.SHOWN)
    )
    [batch] = as_text.read(readers.EpochPartition(row["epoch"]))
    assert json.loads(batch["state"][0].as_py()) == dict(row["state"])
