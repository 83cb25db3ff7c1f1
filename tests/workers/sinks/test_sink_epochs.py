"""File sinks with epochs: durable when staged, with final names when published, and no files of dead generations."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.errors import InternalError, OutputUnwritableError
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.files import file_sink
from dgs.workers.sinks.files.owned import LIST, list_outputs
from dgs.workers.sinks.files.places import output_places
from dgs.workers.sinks.files.publishing import claim, discard_unpublished, publish, remove_earlier

FILES = ("jsonl", "csv", "parquet")


def config(form):
    return SinkConfig.model_validate({form: {"path": "out"}})


def sink(folder, form="jsonl", *, host=0, generation=1, by_epoch=True):
    return open_sink(
        config(form), output_dir=folder, base_dir=folder, host=host, generation=generation, by_epoch=by_epoch
    )


def places(folder, *forms):
    return output_places(map(config, forms or ("jsonl",)), output_dir=folder, base_dir=folder)


def batch(values):
    rows = list(range(len(values)))
    return OutputBatch.of(
        "s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=[0] * len(rows), values=values
    )


def names(folder):
    return sorted(path.name for path in (folder / "out").iterdir() if path.name != LIST)


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(), max_size=3), st.booleans()), max_size=8))
def test_epochs_written_in_turns_go_to_files_of_their_own(tmp_path_factory, writes):
    folder = tmp_path_factory.mktemp("sink")
    one, expected, epoch = sink(folder, host=3), {}, 1
    for later, values, is_closed in writes:
        one.write(batch(values), epoch + later)
        expected.setdefault(epoch + later, []).extend(values)
        if is_closed:
            publish(one.stage(epoch).files)
            epoch += 1
    for left in (epoch, epoch + 1):
        publish(one.stage(left).files)
    one.close()
    assert {name: lines(folder / "out" / name) for name in names(folder)} == {
        f"part-{number:06d}-3.jsonl": values for number, values in expected.items() if values
    }


@pytest.mark.parametrize("form", FILES)
def test_staged_file_is_durable_and_described_and_has_no_final_name(tmp_path, form):
    one = sink(tmp_path, form, generation=2)
    one.write(batch([7, 8, 9]), 4)
    (file,) = one.stage(4).files
    content = Path(file.path).read_bytes()
    assert names(tmp_path) == [f"part-000004-0.g2.{form}.partial"]
    assert (file.path, file.final) == (
        str(tmp_path / "out" / f"part-000004-0.g2.{form}.partial"),
        str(tmp_path / "out" / f"part-000004-0.{form}"),
    )
    assert (file.size, file.rows) == (len(content), 3)
    assert file.digest == hashlib.blake2b(content, digest_size=32).hexdigest()


def test_tables_of_one_epoch_that_do_not_fit_one_file_are_all_staged(tmp_path, monkeypatch):
    monkeypatch.setattr(file_sink, "ROWS_PER_BLOCK", 1)
    one = sink(tmp_path, "parquet")
    for values in ([{"a": 1}, {"a": 2}], [{"b": "x"}]):
        one.write(batch(values), 1)
    files = one.stage(1).files
    publish(files)
    assert names(tmp_path) == ["part-000001-0-1.parquet", "part-000001-0.parquet"]
    assert [(pq.read_metadata(file.final).num_rows, file.rows) for file in files] == [(2, 2), (1, 1)]


@pytest.mark.parametrize("form", FILES)
def test_epoch_without_outputs_leaves_no_file(tmp_path, form):
    one = sink(tmp_path, form)
    one.write(batch([]), 1)
    assert one.stage(1).files == ()
    one.close()
    assert names(tmp_path) == []


def test_abort_leaves_open_epochs_partial(tmp_path):
    one = sink(tmp_path)
    one.write(batch(["staged"]), 1)
    one.stage(1)
    one.write(batch(["open"]), 2)
    one.abort()
    assert names(tmp_path) == [f"part-00000{epoch}-0.g1.jsonl.partial" for epoch in (1, 2)]
    assert lines(tmp_path / "out" / "part-000002-0.g1.jsonl.partial") == ["open"]


def test_outputs_that_were_never_staged_are_not_closed_over(tmp_path):
    one = sink(tmp_path)
    one.write(batch([1]), 3)
    with pytest.raises(InternalError, match=r"outputs of epochs \[3\] were never staged"):
        one.close()
    one.abort()


def test_zombie_of_an_older_generation_writes_to_a_file_of_its_own(tmp_path):
    zombie, new = sink(tmp_path, generation=1), sink(tmp_path, generation=2)
    zombie.write(batch(["old"] * 2000), 1)
    new.write(batch(["new"]), 1)
    (file,) = new.stage(1).files
    zombie.write(batch(["old"] * 2000), 1)
    zombie.stage(1)
    publish([file])
    assert lines(tmp_path / "out" / "part-000001-0.jsonl") == ["new"]


# -- publishing --------------------------------------------------------------------------------------------------------


def test_publishing_again_finishes_an_interrupted_one(tmp_path):
    one = sink(tmp_path)
    files = []
    for epoch in (1, 2):
        one.write(batch([epoch]), epoch)
        files += one.stage(epoch).files
    publish(files[:1])
    publish(files)
    publish(files)
    assert [lines(file.final) for file in files] == [[1], [2]]


@pytest.mark.parametrize("is_another_there", [False, True])
def test_publishing_names_a_missing_staged_file(tmp_path, is_another_there):
    if is_another_there:
        (tmp_path / "final").write_text("of another run")
    file = StagedFile(str(tmp_path / "staged.partial"), str(tmp_path / "final"), 3, "", 1)
    with pytest.raises(
        OutputUnwritableError, match=r"staged\.partial: this staged file of outputs is missing"
    ):
        publish([file])


def test_leftovers_of_dead_generations_go_and_files_of_living_hosts_stay(tmp_path):
    dead, living = sink(tmp_path, generation=1), sink(tmp_path, host=1, generation=1)
    dead.write(batch([1]), 5)
    dead.abort()
    living.write(batch([2]), 5)
    (tmp_path / "out" / "notes.partial").write_text("mine")
    discard_unpublished(places(tmp_path))
    assert names(tmp_path) == ["notes.partial", "part-000005-1.g1.jsonl.partial"]
    living.abort()


DIE_WRITING = """
import signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_sink_epochs import batch, sink
one = sink(Path(sys.argv[1]), host=1)
one.write(batch([1]), 1)
print("written", flush=True)
signal.pause()
"""


def test_leftovers_of_a_killed_process_go(tmp_path):
    host = subprocess.Popen(
        [sys.executable, "-c", DIE_WRITING, str(tmp_path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        assert host.stdout.readline() == "written\n"
        discard_unpublished(places(tmp_path))
        assert names(tmp_path) == ["part-000001-1.g1.jsonl.partial"]
        host.kill()
        host.wait()
    discard_unpublished(places(tmp_path))
    assert names(tmp_path) == []


def test_leftovers_of_earlier_runs_are_removed_and_files_of_others_stay(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("part-0.jsonl", "part-000009-2-1.jsonl", "part-0.csv", "notes.jsonl"):
        (tmp_path / "out" / name).write_text("old")
    listed = [str(tmp_path / "out" / name) for name in ("part-0.jsonl", "part-000009-2-1.jsonl")]
    list_outputs([StagedFile("", final, 3, "", 1) for final in listed])
    (tmp_path / "out" / "part-1.jsonl").write_text("another's")
    remove_earlier(places(tmp_path))
    assert names(tmp_path) == ["notes.jsonl", "part-0.csv", "part-1.jsonl"]


def test_run_without_checkpoints_replaces_the_files_of_a_checkpointed_one(tmp_path):
    for generation, by_epoch in ((1, True), (1, False)):
        one = sink(tmp_path, generation=generation, by_epoch=by_epoch)
        one.write(batch([by_epoch]), 1)
        publish(one.stage(1).files)
        one.close()
    assert names(tmp_path) == ["part-0.jsonl"]
    assert lines(tmp_path / "out" / "part-0.jsonl") == [False]


def test_claimed_directory_keeps_other_runs_out(tmp_path):
    with claim(places(tmp_path, "jsonl", "csv")):
        for form in ("jsonl", "csv", "parquet"):
            with (
                pytest.raises(OutputUnwritableError, match="out: another run is writing to it"),
                claim(places(tmp_path, form)),
            ):
                pass
        discard_unpublished(places(tmp_path))
        host = sink(tmp_path, generation=7)
        host.write(batch([1]), 1)
        host.abort()
    with claim(places(tmp_path)):
        assert names(tmp_path) == [".dgs-lock", "part-000001-0.g7.jsonl.partial"]
    assert names(tmp_path) == ["part-000001-0.g7.jsonl.partial"]


def test_claim_of_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputUnwritableError, match="File exists"), claim(places(tmp_path)):
        pass
