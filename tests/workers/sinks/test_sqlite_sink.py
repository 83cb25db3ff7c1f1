"""The sqlite sink: every output is in the table once, after repeats, locks, kills and resumes."""

import json
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dgs
from dgs.api.beginning import launch
from dgs.api.preparing import Options, from_file, prepare
from dgs.api.running import execute
from dgs.errors import FencedError, InternalError, OutputUnwritableError
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.recovery.coordinator import ControlRequest
from dgs.workers.runtime import local, process
from dgs.workers.runtime.control import post
from dgs.workers.runtime.host_outputs import MeasuredSink
from dgs.workers.runtime.job import Caller
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.files.owned import OutputsChangedError
from dgs.workers.sinks.sqlite_sink import SqliteSink
from dgs.workers.sinks.sqlite_tables import Writer, check_table_kept

CONFIG = SinkConfig.model_validate({"sqlite": {"path": "out.db", "table": "results"}})


ECHO = """\
import dgs


class Echo(dgs.Program):
    depends = dgs.Dependence()
    kinds = (dgs.kind("value"),)

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.ts)
        return state
"""


def sink(folder, *, generation=1, run="run", splits=None):
    return SqliteSink(
        folder / "out.db", "results", Writer(run, generation), splits=splits, locked_seconds=0.02
    )


def batch(*seqs, stream="s", tag=Tag("a"), values=None):  # noqa: B008 - tags are immutable
    return OutputBatch.of(
        stream, rank=0, tags=[tag], ts=[100 + seq for seq in seqs], seq=seqs, index=[0] * len(seqs),
        values=list(seqs) if values is None else values,
    )  # fmt: skip


def table(folder, columns="seq", of="results"):
    db = sqlite3.connect(folder / "out.db")
    try:
        found = db.execute(f"SELECT {columns} FROM {of} ORDER BY rowid").fetchall()
    finally:
        db.close()
    return [row[0] for row in found] if columns.isidentifier() else found


class Lock:
    """Another connection with a write lock on the database."""

    def __init__(self, folder):
        self._db = sqlite3.connect(folder / "out.db", isolation_level=None)

    def __enter__(self):
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_):
        self._db.execute("ROLLBACK")
        self._db.close()


def test_rows_have_the_id_and_the_value_as_json(tmp_path):
    one = open_sink(CONFIG, output_dir=tmp_path, base_dir=tmp_path, host=0)
    values = [{"n": np.int64(1), "t": "a\nb"}, None]
    one.write(batch(3, 4, stream="s", tag=Tag("view", ("x", 7)), values=values), 1)
    one.write(batch(5, tag=Tag("view", "home"), values=[float("nan")]), 1)
    one.write(batch(6, tag=Tag("barrier"), values=["\ud800"]), 1)
    one.stage(1)
    one.close()
    rows = table(tmp_path, "ts, stream, seq, idx, kind, key, value")
    assert [(*row[:6], json.loads(row[6])) for row in rows] == [
        (103, "s", 3, 0, "view", '["x",7]', {"n": 1, "t": "a\nb"}),
        (104, "s", 4, 0, "view", '["x",7]', None),
        (105, "s", 5, 0, "view", "home", None),
        (106, "s", 6, 0, "barrier", None, "\ud800"),
    ]


def test_outputs_are_out_before_anything_is_committed(tmp_path):
    one = sink(tmp_path)
    one.write(batch(1), 1)
    assert table(tmp_path) == [1]
    one.abort()
    assert table(tmp_path) == [1]


def test_repeats_after_a_restart_are_dropped_also_under_another_dealing(tmp_path):
    first = sink(tmp_path, splits={"s": 2})
    first.write(batch(1025, 1030, stream="s/1"), 1)
    first.write(batch(5, stream="s/0"), 1)
    first.abort()
    for generation, splits in ((2, 1), (3, 3), (4, 2)):
        again = sink(tmp_path, generation=generation, splits={"s": splits})
        for seq in (5, 6, 1025, 1030, 1031):
            again.write(batch(seq, stream=f"s/{seq // 1024 % splits}" if splits > 1 else "s"), 1)
        again.stage(1)
        again.close()
        assert sorted(table(tmp_path)) == [5, 6, 1025, 1030, 1031]


def test_split_stream_of_unknown_dealing_is_refused(tmp_path):
    one = sink(tmp_path)
    with pytest.raises(InternalError, match="outputs of 's/1', which is dealt to 1"):
        one.write(batch(1025, stream="s/1"), 1)
    one.abort()


def test_outputs_that_a_lock_blocks_stay_in_order_and_are_staged_as_unaccepted(tmp_path):
    one = sink(tmp_path)
    one.write(batch(1), 1)
    with Lock(tmp_path):
        one.write(batch(2), 1)
        one.write(batch(3), 2)
        one.write(batch(4), 1)
        assert [some.to_list() for some in one.stage(1).unaccepted] == [[2], [4]]
    one.write(batch(5), 2)
    assert one.stage(2).unaccepted == ()
    one.close()
    assert table(tmp_path) == [1, 2, 3, 4, 5]


def test_unaccepted_outputs_are_written_by_the_resumed_run(tmp_path):
    one = sink(tmp_path)
    one.write(batch(1), 1)
    with Lock(tmp_path):
        one.write(batch(2, 3), 1)
        (left,) = one.stage(1).unaccepted
        one.abort()
    again = sink(tmp_path, generation=2)
    for some in (left, batch(4), left):
        again.write(some, 2)
    again.close()
    assert table(tmp_path) == [1, 2, 3, 4]


def test_outputs_wait_for_a_locked_database_up_to_a_bound(tmp_path, monkeypatch):
    """They grew by one batch for every try to write, for as long as the database was locked."""
    made = SqliteSink(tmp_path / "out.db", "results", Writer("run", 1), locked_seconds=0.02, bound=10_000)
    written, tries, flush = [], [], SqliteSink._flush
    monkeypatch.setattr(SqliteSink, "_flush", lambda self: (tries.append(None), flush(self)))

    def write():
        for seq in range(20):
            made.write(batch(seq, values=["x" * 3000]), 1)
            written.append(seq)

    with ThreadPoolExecutor() as pool:
        with Lock(tmp_path):
            writing = pool.submit(write)
            while len(tries) < 9 and len(written) < 9:
                time.sleep(0.001)
            assert len(written) == 3
        writing.result(timeout=60)
    made.close()
    assert table(tmp_path) == list(range(20))


def test_a_wait_for_a_lock_says_so_and_can_be_ended(tmp_path):
    """SQLite waited itself: two seconds in which no signal was handled, and nothing was said."""
    told = []

    def meanwhile():
        told.append(measured.figures.waits)
        if len(told) == 2:
            raise KeyboardInterrupt

    writer = Writer("run", 1)
    made = SqliteSink(tmp_path / "out.db", "results", writer, locked_seconds=3600.0, meanwhile=meanwhile)
    measured = MeasuredSink("sqlite", made, is_transactional=True)
    assert made.waiting is None
    with Lock(tmp_path), pytest.raises(KeyboardInterrupt):
        measured.write(batch(0, 1), epoch=1)
    assert 0.0 < measured.figures.since <= process.now()
    assert (
        told
        == [
            f"sink 'sqlite' waits for {tmp_path / 'out.db'}, which another process has locked for 0 s; 2 outputs wait"
        ]
        * 2
    )
    made.write(batch(), epoch=1)
    assert (measured.figures.since, table(tmp_path)) == (None, [0, 1])
    made.close()


LOCKED_PLAN = """\
version: 1
name: echo
program: {ref: "program.py:Echo"}
streams: [{id: values, tags: {kind: value}, source: {jsonl: {path: values.jsonl}}}]
runtime: {kind: local, batch_rows: 1, stall_after: 1ms, buffer_bytes: 1MiB, stop_timeout: 1ms}
checkpoint: {every: 1ms}
sinks: [{sqlite: {path: out.db, table: results}}]
"""


@pytest.mark.parametrize("stops", [False, True])
def test_a_local_run_says_that_its_sink_waits_for_a_lock_and_can_be_stopped(tmp_path, monkeypatch, stops):
    """It said nothing, or that a stream was silent."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(ECHO)
    Path("values.jsonl").write_text("".join(f'{{"ts": {ts}}}\n' for ts in range(4)))
    Path("plan.yaml").write_text(LOCKED_PLAN)
    with ExitStack() as locked:

        def notice(text):
            if "out.db, which another process has locked" not in text:
                return
            assert "sink 'sqlite' waits for" in text
            if stops:
                post(Path("there/control"), ControlRequest("stop"))
            else:
                locked.close()

        monkeypatch.setattr(SqliteSink, "write", locking(SqliteSink.write, locked, tmp_path))
        monkeypatch.setattr(local, "STOP_GRACE", 0.0)
        caller = Caller(notify=notice)
        launched = launch(
            prepare(from_file("plan.yaml", {})), Path("there"), Options(), resume=False, fresh=False
        )
        run = execute(launched, caller)
    assert run.report["status"] == ("stopped" if stops else "done")
    if stops:
        assert dgs.resume("there").report["status"] == "done"
    assert table(tmp_path, "ts") == [0, 1, 2, 3]


def locking(write, locked, folder):
    """Return `write` of a sink that another process locks before the third call."""
    calls = []

    def locked_write(sink, batch, epoch):
        calls.append(batch)
        if len(calls) == 3:
            locked.enter_context(Lock(folder))
        write(sink, batch, epoch)

    return locked_write


def test_end_of_a_run_that_is_locked_out_is_an_error(tmp_path):
    one = sink(tmp_path)
    with Lock(tmp_path):
        one.write(batch(1, 2), 1)
        with pytest.raises(
            OutputUnwritableError, match=r"locked for more than 0.02 s; 2 outputs are missing"
        ):
            one.close()


def test_older_generation_is_fenced(tmp_path):
    zombie = sink(tmp_path, generation=1)
    zombie.write(batch(1), 1)
    new = sink(tmp_path, generation=2)
    with pytest.raises(FencedError, match="generation 2 has begun"):
        zombie.write(batch(2), 1)
    with pytest.raises(FencedError):
        sink(tmp_path, generation=1)
    new.write(batch(2), 1)
    new.close()
    zombie.abort()
    assert table(tmp_path) == [1, 2]


def test_hosts_of_one_generation_write_together(tmp_path):
    hosts = [sink(tmp_path) for _ in range(3)]
    for seq in range(3):
        for number, host in enumerate(hosts):
            host.write(batch(seq, tag=Tag("a", number)), 1)
    for host in hosts:
        host.stage(1)
        host.close()
    assert sorted(table(tmp_path, "seq, key")) == [
        (seq, str(number)) for seq in range(3) for number in range(3)
    ]


def test_run_that_starts_over_leaves_nothing_of_an_earlier_one(tmp_path):
    earlier = sink(tmp_path, run="earlier", generation=5)
    earlier.write(batch(1, 2, 3), 1)
    fresh = sink(tmp_path, run="fresh")
    fresh.write(batch(2), 1)
    with pytest.raises(FencedError, match="generation of another run has begun"):
        earlier.write(batch(4), 1)
    earlier.abort()
    fresh.close()
    assert table(tmp_path) == [2]


def test_tables_of_one_database_have_marks_of_their_own(tmp_path):
    for name in ("results", "others"):
        one = SqliteSink(tmp_path / "out.db", name, Writer("run", 1))
        one.write(batch(1), 1)
        one.close()
    assert table(tmp_path) == table(tmp_path, of="others") == [1]


DAMAGES = {
    "marks": ("UPDATE dgs_marks SET seq = seq + 1", "the marks of its outputs were changed"),
    "a value": ("UPDATE results SET value = '8' WHERE seq = 1", "its rows were changed"),
    "its line": ("UPDATE dgs_writers SET rows = NULL", "its line in dgs_writers was changed"),
    "a column": ("ALTER TABLE dgs_writers RENAME COLUMN marks TO narks", "its table dgs_writers was changed"),
}


@pytest.mark.parametrize(("statement", "said"), DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("appends", [False, True])
def test_a_damaged_table_is_refused_by_a_resumed_run(tmp_path, appends, statement, said):
    writer = Writer("run", 1, appends=appends)
    one = SqliteSink(tmp_path / "out.db", "results", writer)
    one.write(batch(0, 1, 2), epoch=1)
    one.close()
    check_table_kept(tmp_path / "out.db", "results", writer)
    _change(tmp_path, statement)
    with pytest.raises(OutputsChangedError, match=said):
        check_table_kept(tmp_path / "out.db", "results", writer)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM results WHERE seq = 1", "INSERT INTO results SELECT * FROM results"]
)
def test_rows_of_an_appended_table_may_be_taken_away_or_be_of_others(tmp_path, statement):
    writer = Writer("run", 1, appends=True)
    one = SqliteSink(tmp_path / "out.db", "results", writer)
    one.write(batch(0, 1, 2), epoch=1)
    one.close()
    _change(tmp_path, statement)
    check_table_kept(tmp_path / "out.db", "results", writer)


def test_a_table_of_a_version_without_sums_of_marks_can_be_used(tmp_path):
    one = sink(tmp_path)
    one.write(batch(0, 1), epoch=1)
    one.close()
    _change(tmp_path, "ALTER TABLE dgs_writers DROP COLUMN marks")
    check_table_kept(tmp_path / "out.db", "results", Writer("run", 2))
    again = sink(tmp_path, generation=2)
    again.write(batch(1, 2), epoch=2)
    again.close()
    check_table_kept(tmp_path / "out.db", "results", Writer("run", 3))
    assert table(tmp_path) == [0, 1, 2]


def _change(folder, statement):
    with closing(sqlite3.connect(folder / "out.db", isolation_level=None)) as db:
        db.execute(statement)


def test_table_of_another_writer_is_left_alone(tmp_path):
    db = sqlite3.connect(tmp_path / "out.db")
    db.execute("CREATE TABLE results (mine TEXT)")
    db.execute("INSERT INTO results VALUES ('mine')")
    db.commit()
    db.close()
    with pytest.raises(OutputUnwritableError, match="a table 'results' that does not hold outputs of dgs"):
        sink(tmp_path)
    assert table(tmp_path, "mine") == ["mine"]


def test_table_that_was_dropped_is_filled_again(tmp_path):
    one = sink(tmp_path)
    one.write(batch(1), 1)
    one.close()
    db = sqlite3.connect(tmp_path / "out.db")
    db.execute("DROP TABLE results")
    db.close()
    one = sink(tmp_path)
    one.write(batch(1), 1)
    one.close()
    assert table(tmp_path) == [1]


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), lambda path: path.write_text("no database" * 100)]
)
def test_other_files_than_databases_are_refused(tmp_path, make):
    make(tmp_path / "out.db")
    with pytest.raises(OutputUnwritableError, match=r"cannot write to .*out\.db"):
        sink(tmp_path)


def test_value_that_json_cannot_hold_leaves_nothing_half_written(tmp_path):
    one = sink(tmp_path)
    with pytest.raises(Exception, match="cannot be written as JSON"):
        one.write(batch(1, 2, values=[1, object()]), 1)
    one.abort()
    again = sink(tmp_path)
    again.write(batch(1), 1)
    again.close()
    assert table(tmp_path) == [1]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "locked", "stage", "restart"]), st.integers(1, 3)), max_size=12
    )
)
def test_any_locks_and_restarts_leave_every_output_once_and_in_order(tmp_path_factory, actions):
    """The run resumes from its last stage, as from a checkpoint: with the unaccepted outputs, then all newer outputs again."""
    folder = tmp_path_factory.mktemp("db")
    generation, sent, top, checkpoint, epoch = 1, 0, 0, (0, ()), 1
    one = sink(folder)
    for action, count in actions:
        if action == "stage":
            checkpoint = sent, one.stage(epoch).unaccepted
            epoch += 1
        elif action == "restart":
            one.abort()
            generation += 1
            one = sink(folder, generation=generation)
            sent = checkpoint[0]
            for left in checkpoint[1]:
                one.write(left, epoch)
        else:
            new = batch(*range(sent, sent + count))
            sent += count
            top = max(top, sent)
            if action == "write":
                one.write(new, epoch)
            else:
                with Lock(folder):
                    one.write(new, epoch)
                    if count > 1:
                        checkpoint = sent, one.stage(epoch).unaccepted
                        epoch += 1
    one.write(batch(*range(sent, top)), epoch)
    one.close()
    assert table(folder) == list(range(top))


DIE_WRITING = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_sqlite_sink import batch, sink
one = sink(Path(sys.argv[1]))
for seq in range(int(sys.argv[3])):
    one.write(batch(seq), 1)
one._db.execute("BEGIN IMMEDIATE")
one._db.execute("INSERT INTO results VALUES (0, 's', 999, 0, 'a', NULL, '0')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_host_leaves_whole_transactions_and_no_lock(tmp_path):
    command = [sys.executable, "-c", DIE_WRITING, str(tmp_path), str(Path(__file__).parent), "3"]
    assert subprocess.run(command, check=False).returncode == -9
    assert table(tmp_path) == [0, 1, 2]
    again = sink(tmp_path, generation=2)
    again.write(batch(*range(5)), 1)
    again.close()
    assert table(tmp_path) == [0, 1, 2, 3, 4]


class TwoPasses(dgs.Program):
    """Each event emits twice, also by an `update_batch` that goes over a batch twice."""

    kinds = (dgs.kind("value"),)

    def init(self):
        return None

    def update(self, state, event, emit):
        emit(event.payload)
        emit(-event.payload)

    def update_batch(self, state, batch, emit_batch):
        emit_batch(batch.payload)
        emit_batch(-batch.payload)


@pytest.mark.parametrize("checkpoint", [{}, {"checkpoint": {"every": "1ms"}}])
def test_outputs_of_two_passes_over_a_batch_are_all_written(tmp_path, checkpoint):
    payload = np.arange(1, 201)
    settings = {"sinks": [{"sqlite": {"path": str(tmp_path / "out.db"), "table": "t"}}], **checkpoint}
    dgs.run(
        TwoPasses, streams={"s": [{"ts": payload, "payload": payload}]}, runtime="local", settings=settings
    )
    found = [json.loads(value) for (_, value) in table(tmp_path, "rowid, value", of="t")]
    assert found == [sign * value for value in payload.tolist() for sign in (1, -1)]
