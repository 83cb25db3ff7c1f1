"""Data saved by version 0.1.0 can be read today: its code wrote `golden/saved` before any module moved.

`registered.json` has one value of each type that checkpoints and logs hold, as bytes of the codec. The archive is a project whose
run was stopped half-way: checkpoints, an event log, dead letters, a run record, and output files and a table.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

import dgs
from dgs import codec
from dgs.model.identity import ProgramIdentity
from dgs.model.order import OrderKey
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.checkpoints.saved import Committed, Manifest
from dgs.workers.event_log import LogReader
from dgs.workers.recovery.checkpoint import Checkpoint, Record, StagedFile
from dgs.workers.recovery.coordinator import HostReport, RootReport
from dgs.workers.recovery.positions import Layer, Part, Positions

SAVED = Path(__file__).parent / "golden" / "saved"
KEY = OrderKey(5, 0, 3)
LAYER = Layer(2, (Part(1, TagSet.of(Tag("view", 7)), KEY),))
POSITIONS = Positions({"views": (LAYER,)})
STAGED = StagedFile("/a/part.partial", "/a/part", 12, "d1", 3)
IDENTITY = ProgramIdentity("Sums", 2, {"streams in order": "'a'"})
CHECKPOINT = Checkpoint(4, None, POSITIONS, (STAGED,), (), {"a": {"size": 3}}, 17, is_final=True)
VALUES = [
    STAGED,
    CHECKPOINT,
    Record(2, 4, POSITIONS, (STAGED,), is_final=False),
    Manifest("sums", IDENTITY, 2, CHECKPOINT, KEY, 3, "d2", 9),
    Committed("sums", IDENTITY, 2, CHECKPOINT, {4: "d3"}, 9),
    HostReport(1, 4, (STAGED,), (), {"a": KEY}, {"a": {"size": 3}}, 17, 5),
    RootReport(4, b"state", {0: KEY}, is_final=True),
    LAYER.parts[0],
    LAYER,
    POSITIONS,
    IDENTITY,
    DeadLetter("views", 5, 3, "view", 7, {"amount": -1}, "ValueError: no", "update", "w1"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_saved_by_the_version_before_are_read(value):
    saved = json.loads((SAVED / "registered.json").read_text())
    assert codec.decode(bytes.fromhex(saved[type(value).__name__])) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_names_in_saved_data_are_no_module_paths(value):
    data = codec.encode(value)
    assert f"dgs.{type(value).__name__}".encode() in data
    assert type(value).__module__.encode() not in data


@pytest.fixture
def stopped(tmp_path):
    """Unpack the project whose run was stopped half-way by version 0.1.0."""
    with tarfile.open(SAVED / "saved_by_0_1_0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_an_event_log_of_the_version_before_is_read(stopped):
    assert len(logged(stopped)) == 240


def logged(project):
    """Return the rows of the project's event log."""
    reader, rows = LogReader(project / "log", "logged"), []
    while (found := reader.poll()) is not None:
        rows += found[1].to_pylist()
    return rows


def sequential_outputs(project):
    """Return the sums between barriers, computed only from the files of the project."""
    listed = [line.split(",") for line in (project / "listed.csv").read_text().splitlines()[1:]]
    values = [(int(ts), int(amount)) for ts, amount in listed] + [
        (row["ts"], row["amount"]) for row in logged(project)
    ]
    return [
        [ts, sum(amount for at, amount in values if ts - 100 <= at < ts and amount >= 0)]
        for ts in range(100, 2001, 100)
    ], sum(amount < 0 for _, amount in values)


@pytest.mark.parametrize("optimizer", ["greedy", "sequential"])
def test_a_run_stopped_by_the_previous_version_resumes(stopped, optimizer):
    sums, negative = sequential_outputs(stopped)
    before = [line for part in stopped.glob("out/part-*.jsonl") for line in part.read_text().splitlines()]
    assert 0 < len(before) < len(sums)

    dgs.resume(stopped / "run", optimizer=optimizer)

    parts = sorted(stopped.glob("out/part-*.jsonl"))
    assert [json.loads(line) for part in parts for line in part.read_text().splitlines()] == sums
    with closing(sqlite3.connect(stopped / "out.db")) as table:
        assert [json.loads(value) for (value,) in table.execute("SELECT value FROM sums ORDER BY ts")] == sums
    letters = [
        line
        for file in (stopped / "run").glob("dead-letter-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert len(letters) == negative > 0
