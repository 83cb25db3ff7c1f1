"""Outputs replace only outputs: files of other programs stay, and a run refuses to write among them."""

import json
from pathlib import Path

import pytest

import dgs
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks.files.owned import (
    LIST,
    OccupiedOutputError,
    check_free,
    digest_of,
    foreign,
    list_outputs,
    owned,
)
from dgs.workers.sinks.files.places import Place
from dgs.workers.sinks.opening import OutputIsInputError

VALUE = dgs.kind("value")


class Echo(dgs.Program):
    depends = dgs.Dependence((VALUE, VALUE, dgs.ALWAYS))

    def init(self):
        return None

    def update(self, state, event, emit):
        emit(event.payload)
        return state


PLAN = """\
version: 1
name: echo
program: {ref: "program.py:Echo"}
streams:
  - id: values
    tags: {kind: value}
    source: {SOURCE}
    payload: amount
runtime: {kind: local}
sinks: [{SINK}]
"""


@pytest.fixture
def project(tmp_path):
    """Write a job and return a function that runs it with a source and a sink."""
    source = Path(__file__).read_text(encoding="utf-8")
    program = source[source.index("VALUE = ") : source.index("PLAN = ")]
    (tmp_path / "program.py").write_text(f"import dgs\n\n{program}")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "part-0.jsonl").write_text('{"ts": 1, "amount": 7}\n{"ts": 2, "amount": 8}\n')

    def run(sink, source="jsonl: {path: in/part-0.jsonl}", **options):
        (tmp_path / "plan.yaml").write_text(PLAN.replace("SOURCE", source).replace("SINK", sink))
        return dgs.run(tmp_path / "plan.yaml", **options)

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


FOREIGN = ["part-0.jsonl", "part-00000-0a1b-c000.snappy.jsonl", "part-x.jsonl", "part-000001-0.jsonl"]


@pytest.mark.parametrize("checkpoint", ["", "checkpoint: {every: 1s}\n"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_run_refuses_a_directory_with_files_of_others(project, tmp_path, name, checkpoint):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious")
    with pytest.raises(OccupiedOutputError, match=f"holds files that dgs did not write.*{name}") as refused:
        project("jsonl: {path: out}", settings={"checkpoint.every": "1s"} if checkpoint else None)
    assert refused.value.exit_code == 3
    assert contents(tmp_path / "out") == {name: b"precious"}


@pytest.mark.parametrize(
    "source",
    [
        "jsonl: {path: in/part-0.jsonl}",
        "jsonl: {path: in/*.jsonl}",
        "jsonl: {path: 'in/part-*'}",
        "jsonl: {path: '**/*.jsonl'}",
    ],
)
def test_a_run_refuses_to_write_where_it_reads(project, tmp_path, source):
    before = contents(tmp_path / "in")
    with pytest.raises(OutputIsInputError, match="stream 'values' reads") as refused:
        project("jsonl: {path: in}", source)
    assert refused.value.exit_code == 3
    assert contents(tmp_path / "in") == before


def test_a_run_replaces_the_outputs_of_the_previous_one(project, tmp_path):
    for amounts in ([7, 8], [9]):
        lines = [json.dumps({"ts": ts, "amount": amount}) for ts, amount in enumerate(amounts)]
        (tmp_path / "in" / "part-0.jsonl").write_text("\n".join(lines))
        project("jsonl: {path: out}", fresh=True)
        found = [
            json.loads(line)
            for path in (tmp_path / "out").glob("part-*")
            for line in path.read_text().split()
        ]
        assert found == amounts


def test_an_output_that_its_user_has_changed_is_not_replaced(project, tmp_path):
    project("jsonl: {path: out}")
    (output,) = (tmp_path / "out").glob("part-*")
    output.write_text("mended by hand\n")
    with pytest.raises(OccupiedOutputError, match="were changed since"):
        project("jsonl: {path: out}")
    assert output.read_text() == "mended by hand\n"


def place_with(tmp_path, *texts):
    place = Place(tmp_path, "jsonl")
    for number, text in enumerate(texts):
        (tmp_path / f"part-{number}.jsonl").write_text(text)
    return place


def test_a_listed_digest_tells_a_changed_file_of_the_same_size(tmp_path):
    place = place_with(tmp_path, "aaa", "bbb")
    paths = place.finals()
    list_outputs([StagedFile("", str(path), 3, digest_of(path), 1) for path in paths])
    paths[1].write_text("ccc")
    assert (owned(place), foreign(place)) == ([paths[0]], [paths[1]])


@pytest.mark.parametrize("torn", range(1, 40, 7))
def test_a_torn_line_of_the_list_hides_no_other(tmp_path, torn):
    place = place_with(tmp_path, "aaa", "bbb")
    first, second = place.finals()
    list_outputs([StagedFile("", str(tmp_path / "part-9.jsonl"), 3, "", 1)])
    (tmp_path / LIST).write_bytes((tmp_path / LIST).read_bytes()[:-torn])
    list_outputs([StagedFile("", str(path), 3, "", 1) for path in (first, second)])
    assert owned(place) == [first, second]


def test_the_list_forgets_missing_files(tmp_path):
    place = place_with(tmp_path, "aaa", "bbb")
    first, second = place.finals()
    list_outputs([StagedFile("", str(path), 3, "", 1) for path in (first, second)])
    second.unlink()
    check_free([place])
    assert "part-1" not in (tmp_path / LIST).read_text()
    assert owned(place) == [first]
