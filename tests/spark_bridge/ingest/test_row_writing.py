"""Writing the rows of a micro-batch: files that are of no use are not written to the end."""

import random
import threading
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.spark_bridge.ingest import row_writing
from dgs.spark_bridge.session.running_jobs import Tags
from dgs.workers.event_log import row_files
from tests.spark_bridge.writing import put, put_file, rows_in

LONGEST = 60


@pytest.fixture
def cancelling(monkeypatch):
    """Tags without Spark: what is tagged, and an event for each tag whose jobs are cancelled."""
    monkeypatch.setattr(row_writing, "LOOKS_FIRST", 0.001)
    found = SimpleNamespace(tagged=set(), cancelled=threading.Event())

    def cancel(tag):
        assert tag in found.tagged
        found.cancelled.set()

    tags = Tags(found.tagged.add, found.tagged.remove, cancel)
    monkeypatch.setattr(row_writing, "tagging", lambda _: tags)
    return found


def finished(folder, task, times, *, is_running=False):
    """Write the file of a task as Hadoop does before the job's commit."""
    place = folder / f"{row_writing.PART}=0" / ("_temporary/0/_temporary" if is_running else "_temporary/0")
    (place / task).mkdir(parents=True)
    pq.write_table(pa.table({"ts": times}), place / task / f"{task}.parquet")


def unfit(found):
    is_useless = any(pq.read_table(path)["ts"].to_pylist() == [2, 1] for path in found.get(0, ()))
    return "unsorted" if is_useless else None


def test_job_ends_when_its_first_files_are_of_no_use(tmp_path, cancelling):
    folder = tmp_path / "batch"

    def write():
        finished(folder, "task-0", [1, 2])
        finished(folder, "task-1", [2, 1])
        assert cancelling.cancelled.wait(LONGEST)
        raise RuntimeError("cancelled")

    assert row_writing._write(None, write, folder, unfit) == "unsorted"
    assert not folder.exists()
    assert cancelling.tagged == set()


def test_files_of_running_tasks_do_not_count_and_other_errors_are_raised(tmp_path, cancelling):
    folder, looks = tmp_path / "batch", threading.Semaphore(0)

    def looked(found):
        looks.release()
        return unfit(found)

    def write():
        finished(folder, "task-0", [2, 1], is_running=True)
        for _ in range(3):
            assert looks.acquire(timeout=LONGEST)
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        row_writing._write(None, write, folder, looked)
    assert not cancelling.cancelled.is_set()
    assert cancelling.tagged == set()


@pytest.mark.parametrize("first", [0.001, 0.2, 1000])
def test_rows_far_from_in_order_are_written_once_whenever_it_is_seen(spark, tmp_path, monkeypatch, first):
    monkeypatch.setattr(row_writing, "LOOKS_FIRST", first)
    monkeypatch.setattr(row_files, "READ_ROWS", 2)
    monkeypatch.setattr(row_files, "MOST_HELD", 2)
    numbers = random.Random(7)
    rows = [(numbers.randrange(500), number) for number in range(600)]
    for number in range(6):
        put_file(tmp_path / "in", number, rows[100 * number : 100 * number + 100])
    put(spark, tmp_path / "in", tmp_path / "log", tmp_path / "kept", at_once=6)
    assert rows_in(tmp_path / "log") == sorted(rows)
    assert len(list((tmp_path / "log" / "s" / row_files.FOLDER).iterdir())) == 1
