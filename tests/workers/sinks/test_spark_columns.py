"""Sinks write whole columns, with the same result as for single values."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dgs import Tag
from dgs.model.columns import length, to_list
from dgs.model.outputs import OutputBatch
from dgs.workers.sinks.files.file_sink import Waiting, jsonl_sink, parquet_sink
from dgs.workers.sinks.files.places import PartNames, Place
from dgs.workers.sinks.files.publishing import publish
from dgs.workers.sinks.formats import json_columns
from dgs.workers.sinks.formats.arrow_tables import table_of, table_of_parts
from dgs.workers.sinks.formats.json_columns import json_lines
from dgs.workers.sinks.formats.json_text import as_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.sampled_from(
    ['"', "\\", "\n", "\u2028", "é"]
)
INT64S = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats() | st.sampled_from([-0.0, 0.0, 1e20, 39.0])
TYPES = {pa.int64(): INT64S, pa.float64(): FLOATS, pa.string(): TEXTS, pa.bool_(): st.booleans()}
OBJECTS = (
    INT64S
    | TEXTS
    | st.none()
    | st.tuples(st.integers(), FLOATS)
    | st.dictionaries(TEXTS, st.integers(), max_size=2)
)


@st.composite
def columns_of(draw, size, depth=2):
    """Draw a column of any form: list, NumPy, a broadcast constant, Arrow with nulls and offset, structs, records by name."""
    form = draw(
        st.sampled_from(["list", "numpy", "constant", "arrow", "struct", "records"][: 6 if depth else 4])
    )
    if form == "records":
        names = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
        return {name: draw(columns_of(size, depth - 1)) for name in names}
    if form == "list":
        field = draw(st.sampled_from([INT64S | st.none(), FLOATS, TEXTS, st.integers(), OBJECTS]))
        records = st.fixed_dictionaries({"a": field}, optional={"b": st.integers(0, 9)})
        rows = st.one_of(
            st.tuples(field, st.integers()), st.lists(field, max_size=2), st.tuples(records, field)
        )
        values = draw(st.sampled_from([OBJECTS, field, records, rows]))
        return draw(st.lists(values, min_size=size, max_size=size))
    kind, values = draw(st.sampled_from(list(TYPES.items())))
    if form == "struct":
        fields = pa.struct([("a", kind), ("b", pa.int64())])
        values = st.fixed_dictionaries({"a": st.none() | values, "b": INT64S})
        kind = fields
    if form in ("arrow", "struct"):
        array = pa.array(draw(st.lists(st.none() | values, min_size=size + 1, max_size=size + 1)), kind)
        return array.slice(1)
    if form == "constant" and size:
        return np.broadcast_to(np.array(draw(values)), size)
    drawn = draw(st.lists(values, min_size=size, max_size=size))
    array = np.array(drawn, dtype=None if drawn else np.int64)
    return array[::-1]


def same(left, right):
    return str(left) == str(right)


@given(data=st.data(), size=st.integers(0, 4))
def test_json_lines_are_those_of_the_values_one_by_one(data, size):
    parts = [data.draw(columns_of(size)) for _ in range(data.draw(st.integers(1, 2)))]
    values = [value for part in parts for value in to_list(part)]
    assert json_lines(parts) == "".join(as_json(value) + "\n" for value in values).encode()
    order = np.array(data.draw(st.permutations(range(len(values)))), dtype=np.int64)
    assert json_lines(parts, order) == "".join(as_json(values[at]) + "\n" for at in order).encode()


@pytest.mark.parametrize(
    "column",
    [
        np.array(["\ud800"]),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([0.1], dtype=np.float32),
        np.array([[1, 2]]),
        pa.array([1, None], pa.int8()),
        pa.chunked_array([[1], [2]]),
        pa.array(["a", "a"]).dictionary_encode(),
        np.array(["2013-01-01"], dtype="datetime64[s]"),
        {1: [2]},
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', '')}",
)
def test_json_lines_of_unusual_columns(column):
    assert json_lines([column]) == "".join(as_json(value) + "\n" for value in to_list(column)).encode()


def test_json_lines_beyond_what_arrow_holds_are_made_one_by_one(monkeypatch):
    def refuse(*_):
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    monkeypatch.setattr(json_columns.pa, "concat_arrays", refuse)
    assert json_lines([np.array([1, 2]), ["x"]], np.array([2, 0, 1])) == b'"x"\n1\n2\n'


@given(data=st.data())
def test_waiting_columns_come_back_in_their_order(data):
    waiting, expected = Waiting(), []
    for _ in range(data.draw(st.integers(0, 5))):
        column = data.draw(columns_of(data.draw(st.integers(1, 3))))
        waiting.add(column)
        expected += to_list(column)
    assert waiting.rows == len(expected)
    parts, order = waiting.take()
    values = [value for part in parts for value in to_list(part)]
    assert same(values if order is None else [values[row] for row in order.tolist()], expected)
    assert waiting.rows == 0
    assert waiting.take() == ([], None)


def test_waiting_keeps_columns_of_one_form_columns():
    waiting = Waiting()
    for part in ({"a": np.array([1])}, [{"b": 2}], {"a": np.array([3])}):
        waiting.add(part)
    parts, order = waiting.take()
    assert isinstance(parts[0]["a"], np.ndarray)
    assert order.tolist() == [0, 2, 1]


@given(data=st.data())
def test_table_of_parts_is_the_table_of_their_rows(data):
    ids = st.lists(st.integers(0, 99), min_size=1, max_size=3)
    views = [
        {"page": np.array(n), "who": pa.array([None, *map(str, n[1:])])}
        for n in data.draw(st.lists(ids, max_size=3))
    ]
    updates = [[{"page": page, "old": None} for page in n] for n in data.draw(st.lists(ids, max_size=3))]
    waiting, rows = Waiting(), []
    for part in data.draw(st.permutations(views + updates)):
        waiting.add(part)
        rows += to_list(part)
    if rows:
        assert (
            table_of_parts(*waiting.take()).select(["page"]).to_pylist()
            == table_of(rows).select(["page"]).to_pylist()
        )


@pytest.mark.parametrize("odd", [[1, 2], [{"page": "text"}], [{"page": [1]}]])
def test_table_of_parts_without_a_common_type_is_decided_by_the_values(odd):
    waiting = Waiting()
    for part in ({"page": np.array([1, 2])}, odd):
        waiting.add(part)
    assert table_of_parts(*_reordered(waiting)).equals(table_of([{"page": 1}, {"page": 2}, *odd]))


def _reordered(waiting):
    parts, order = waiting.take()
    return parts, np.arange(sum(map(length, parts))) if order is None else order


def batch(values):
    rows = list(range(length(values)))
    return OutputBatch.of(
        "s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=[0] * len(rows), values=values
    )


@example([2000, 1])
@given(st.lists(st.sampled_from([1, 7, 1500]), max_size=4))
def test_jsonl_sink_writes_every_output_once_and_in_order(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("out")
    sink, expected = jsonl_sink(PartNames(Place(folder, "jsonl"), 0)), []
    for number, size in enumerate(sizes):
        values = {"n": np.arange(size)} if number % 2 else [[number, i] for i in range(size)]
        sink.write(batch(values), epoch=1)
        expected += to_list(values)
    publish(sink.stage(1).files)
    sink.close()
    path = folder / "part-0.jsonl"
    assert path.exists() == bool(expected)
    if expected:
        assert list(map(json.loads, path.read_text().splitlines())) == expected


def test_jsonl_sink_leaves_waiting_outputs_when_aborted(tmp_path):
    sink = jsonl_sink(PartNames(Place(tmp_path, "jsonl"), 0))
    sink.write(batch(["kept"]), epoch=1)
    sink.abort()
    assert (tmp_path / "part-0.jsonl.partial").read_text() == '"kept"\n'


def test_parquet_sink_keeps_rare_records_among_columns(tmp_path):
    sink = parquet_sink(PartNames(Place(tmp_path, "parquet"), 0))
    sink.write(batch({"page": np.array([1, 1]), "info": pa.array([None, 2])}), epoch=1)
    sink.write(batch([{"page": 1, "replaced": 2}]), epoch=1)
    sink.write(batch({"page": np.array([1]), "info": pa.array([3])}), epoch=1)
    publish(sink.stage(1).files)
    sink.close()
    assert pq.read_table(tmp_path / "part-0.parquet").to_pydict() == {
        "page": [1, 1, 1, 1],
        "info": [None, 2, None, 3],
        "replaced": [None, None, 2, None],
    }
