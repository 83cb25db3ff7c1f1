"""`on_error: skip`: an unreadable row becomes a placeholder event in every reader; other rows are not affected."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs import codec
from dgs.errors import MalformedRowError
from dgs.job.stream_tags import some_tag
from dgs.model.tags import Tag, kind
from dgs.semantics.skipped_events import UnreadableRow
from dgs.workers.sources.readers import csv as csv_reader
from tests.workers.reading import Kinds, read_all, stream

VALUE = Tag("value")
COUNT = 60
FILES = ("csv", "jsonl", "parquet")


def written(folder, form, rows):
    """Write rows (ts, a) of texts as a file; return the source that reads them."""
    path = folder / f"a.{form}"
    options = {}
    if form == "csv":
        path.write_text("ts,a\n" + "".join(f"{ts},{a}\n" for ts, a in rows))
        options = {"columns": {"ts": "int", "a": "int"}}
    elif form == "jsonl":
        path.write_text("".join(f'{{"ts": {ts}, "a": {a}}}\n' for ts, a in rows))
    else:
        times = [None if ts == "x" else int(ts) for ts, _ in rows]
        pq.write_table(pa.table({"ts": times, "a": [int(a) for _, a in rows]}), path, row_group_size=7)
    return {form: {"path": path.name, **options}}


def split(found):
    """Return (seq, payload) of the rows that were read, and the unreadable rows."""
    good = [(seq, payload) for _, _, _, seq, payload in found if not isinstance(payload, UnreadableRow)]
    return good, [
        (ts, seq, payload) for _, _, ts, seq, payload in found if isinstance(payload, UnreadableRow)
    ]


@given(
    bad=st.sets(st.integers(0, COUNT - 1)),
    form=st.sampled_from([*FILES, "memory"]),
    batch_rows=st.integers(1, 80),
    block=st.sampled_from([64, 1 << 20]),
    sorts=st.booleans(),
)
def test_rows_that_cannot_be_read_are_stood_for_and_all_others_come(
    tmp_path_factory, *, bad, form, batch_rows, block, sorts
):
    rows = [("x" if i in bad else str(i // 3), str(i)) for i in range(COUNT)]
    folder, items = tmp_path_factory.mktemp("bad"), None
    if form == "memory":
        source, items = "data", [("value", "soon" if ts == "x" else int(ts), int(a)) for ts, a in rows]
    else:
        source = written(folder, form, rows)
    config = stream(source, payload="a", on_disorder={"sort_within": "2s"} if sorts else "error")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "BLOCK_BYTES", block)
        found = read_all(config, items, base_dir=folder, batch_rows=batch_rows, skips=True, unit="s")
    good, unreadable = split(found)
    assert sorted(good) == [(i, i) for i in range(COUNT) if i not in bad]
    assert sorted(seq for _, seq, _ in unreadable) == sorted(bad)
    for _, seq, row in unreadable:
        assert f"row {seq}: " in row.reason
        assert row.file == ("memory 'data'" if form == "memory" else f"a.{form}")
        assert row.number == {"csv": seq + 2, "memory": None}.get(form, seq + 1)
        assert codec.decode(codec.encode(row)) == row
    times = [(ts, seq) for _, _, ts, seq, _ in found]
    assert times == sorted(times)


CELLS = {
    "csv": ["2,2,2", "2", "2,x", "2,\xff", "2,99999999999999999999", ",2"],
    "jsonl": [
        "{", "[2]", '{"ts": 2, "a": NaN}', '{"ts": "soon", "a": 2}', '{"ts": 2, "a": "\xff"}', "[" * 99_999,
        '{"ts": 2, "a": "\\udead"}', '{"ts": 2, "a": ' + "9" * 5000 + "}", '{"ts": 2, "a": "' + "x" * 2**24 + '"}',
    ],
}  # fmt: skip


@pytest.mark.parametrize(("form", "line"), [(form, line) for form, lines in CELLS.items() for line in lines])
def test_every_kind_of_wrong_row_is_skipped(tmp_path, form, line):
    around = {"csv": ("ts,a\n1,1\n", "\n3,3\n"), "jsonl": ('{"ts": 1, "a": 1}\n', '\n{"ts": 3, "a": 3}\n')}[
        form
    ]
    (tmp_path / "data").write_bytes(line.join(around).encode("latin-1"))
    options = {"columns": {"a": "int"} if "\xff" not in line else {"a": "str"}} if form == "csv" else {}
    config = stream({form: {"path": "data", **options}}, payload="a")
    with pytest.raises(MalformedRowError, match="row 1: "):
        read_all(config, base_dir=tmp_path)
    good, unreadable = split(read_all(config, base_dir=tmp_path, skips=True))
    assert [(seq, int(a)) for seq, a in good] == [(0, 1), (2, 3)]
    assert [(ts, seq) for ts, seq, _ in unreadable] == [(1, 1)]


def test_heartbeats_beside_an_unreadable_row_count(tmp_path):
    lines = [
        {"ts": 1},
        {"kind": "heartbeat", "ts": 4},
        {"ts": "x"},
        {"kind": "heartbeat", "ts": 8},
        {"ts": 9},
    ]
    (tmp_path / "data").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = stream({"jsonl": {"path": "data", "heartbeats": True}}, payload=[])
    found = read_all(config, base_dir=tmp_path, skips=True)
    assert [(ts, seq) for _, _, ts, seq, _ in found] == [(1, 0), (5, 1), (9, 2)]


@pytest.mark.parametrize(
    "item", [5, ("value", 1), ("value", None, 1), ((1, 2), 2, 3), ("value", "x", object())]
)
def test_items_that_are_no_events_are_skipped(item):
    items = [("value", 1, "a"), item, ("value", 3, "b")]
    good, unreadable = split(read_all(stream(), items, skips=True))
    assert good == [(0, "a"), (2, "b")]
    assert [(ts, seq) for ts, seq, _ in unreadable] == [(1, 1)]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"kind": "value"}, VALUE),
        ({"kind": "view", "key": {"column": "k"}}, Tag("view", "")),
        ({"kind": "cell", "key": {"column": "k"}}, Tag("cell", 0)),
        ({"kind": "side", "key": {"column": "k"}}, Tag("side", "l")),
        ([{"kind": "side", "key": "r"}, "barrier"], Tag("barrier")),
    ],
)
def test_the_tag_of_unreadable_rows_is_one_of_the_streams(tags, expected):
    assert some_tag(stream(tags=tags), Kinds()) == expected


class Sum(dgs.Program):
    """Adds up, batch by batch where it can."""

    kinds = (kind("value"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state)
        return state + event.payload


class Counted(Sum):
    def update_batch(self, state, batch, emit_batch):  # raises for no payload
        emit_batch(list(range(state, state + len(batch))))
        return state + len(batch)

    def update(self, state, event, emit):
        emit(state)
        return state + 1


@pytest.mark.parametrize("program", [Sum, Counted])
@pytest.mark.parametrize("form", FILES)
def test_a_run_skips_unreadable_rows_as_the_sequential_program_does(tmp_path, program, form):
    rows = [("x" if i % 50 == 7 else str(i), str(i)) for i in range(500)]
    plan = {
        "version": 1, "name": "sums", "program": {"ref": f"{__name__}:{program.__name__}"},
        "streams": [{"id": "s", "tags": {"kind": "value"}, "source": written(tmp_path, form, rows), "payload": "a", "split": 3}],
        "runtime": {"kind": "local"}, "on_error": "skip",
    }  # fmt: skip
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    run = dgs.run(tmp_path / "plan.yaml", verify=True, run_dir=tmp_path / "run")
    assert run.verified
    expected = [i for i in range(500) if i % 50 != 7]
    assert run.state == (sum(expected) if program is Sum else len(expected))
    letters = [
        json.loads(line) for line in (tmp_path / "run" / "dead-letter-0.jsonl").read_text().splitlines()
    ]
    assert sorted(letter["seq"] for letter in letters) == [i for i in range(500) if i % 50 == 7]
    assert {letter["function"] for letter in letters} == {"read"}
    assert {letter["payload"]["file"] for letter in letters} == {f"a.{form}"}
