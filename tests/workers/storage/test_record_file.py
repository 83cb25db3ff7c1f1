"""Files of records that are cut: the rest reads as before, after a crash at any moment, also for open readers and writers."""

import os
from contextlib import closing
from random import Random

import pytest

from dgs.errors import CorruptFileError
from dgs.workers.storage import record_file
from dgs.workers.storage.record_file import RecordReader, RecordWriter, cut

NAME = "clicks"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


class KilledError(Exception):
    """The end of the process."""


def pairs(count, seed=1):
    rnd, row, found = Random(seed), 0, []
    for _ in range(count):
        row += rnd.choice([0, 1, 3])
        found.append((row, rnd.randint(-5, 50)))
    return found


def written(path, records):
    with closing(RecordWriter(path, NAME)) as writer:
        for pair in records:
            writer.append(*pair)
    return path


def folded(records, below):
    """Return records with one pair for the records below a key, by the definition."""
    gone = [pair for pair in records if pair[0] < below]
    stands = [(gone[-1][0], max(second for _, second in gone))] if gone else []
    return [*stands, *records[len(gone) :]]


def read(path):
    reader = RecordReader(path, NAME)
    return reader.poll(), reader.count, reader.digest


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_file_reads_as_before_with_one_pair_for_the_removed_records(tmp_path, seed):
    records = pairs(30, seed)
    path = written(tmp_path / "beats.dgs", records)
    _, count, digest = read(path)
    for below in sorted(Random(seed).sample(range(70), 3)):
        with closing(RecordWriter(path, NAME)) as writer:
            writer.cut(below)
        assert read(path) == (folded(records, below), count, digest)
    more = [(records[-1][0] + 1, 7), (records[-1][0] + 9, 8)]
    whole = written(tmp_path / "whole.dgs", [*records, *more])
    written(path, more)
    assert read(path)[1:] == read(whole)[1:]


def test_a_cut_waits_until_it_pays_for_itself(tmp_path):
    path = written(tmp_path / "beats.dgs", [(row, row) for row in range(20)])
    cut(path, NAME, below=10**6)
    cut(path, NAME, below=9, least=1)
    assert len(read(path)[0]) == 20
    cut(path, NAME, below=10, least=1)
    assert read(path)[0] == folded([(row, row) for row in range(20)], 10)


def test_the_writer_cuts_when_it_next_appends_and_readers_follow(tmp_path):
    records = [(row, row) for row in range(10)]
    path = tmp_path / "beats.dgs"
    with closing(RecordWriter(path, NAME)) as writer:
        for pair in records:
            writer.append(*pair)
        reader = RecordReader(path, NAME)
        assert reader.poll() == records
        cut(path, NAME, below=8, least=1)
        assert read(path)[0] == records  # it belongs to the writer
        writer.append(10, 10)
        assert (reader.poll(), read(path)[0]) == ([(10, 10)], folded([*records, (10, 10)], 8))
        writer.append(11, 11)
        assert reader.poll() == [(11, 11)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["beats.dgs"]


@pytest.mark.parametrize("step", ["_written", "fsync", "replace", "sync_directory", "unlink"])
def test_a_crash_between_any_two_steps_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, step):
    records = [(row, row) for row in range(10)]
    path = tmp_path / "beats.dgs"
    writer = RecordWriter(path, NAME)
    for pair in records:
        writer.append(*pair)
    cut(path, NAME, below=8, least=1)

    def killed(*_, **__):
        raise KilledError

    places = {"replace": type(path), "unlink": type(path), "fsync": os}
    with monkeypatch.context() as patch:
        patch.setattr(places.get(step, record_file), step, killed)
        with pytest.raises(KilledError):
            writer.append(10, 10)
    os.close(writer._descriptor)  # like the end of a process
    assert read(path)[0] in (records, folded(records, 8))
    written(path, [(10, 10)])
    assert read(path)[0] in ([*records, (10, 10)], folded([*records, (10, 10)], 8))
    assert not path.with_name("beats.dgs.cut").exists()


def test_a_writer_that_waited_writes_to_the_file_that_has_the_name(tmp_path, monkeypatch):
    """The previous writer has cut the file just as this one got the lock of the old file."""
    path = written(tmp_path / "beats.dgs", [(row, row) for row in range(10)])
    take = record_file.take

    def cut_meanwhile(descriptor):
        monkeypatch.setattr(record_file, "take", take)
        with closing(RecordWriter(path, NAME)) as first:
            first.cut(8)
        return take(descriptor)

    monkeypatch.setattr(record_file, "take", cut_meanwhile)
    written(path, [(20, 20)])
    assert read(path)[0][-1] == (20, 20)


def test_a_request_for_a_cut_that_another_run_left_is_forgotten(tmp_path):
    path = tmp_path / "beats.dgs"
    path.with_name("beats.dgs.cut").write_text("99")
    written(path, [(1, 1), (2, 2)])
    assert read(path)[0] == [(1, 1), (2, 2)]


def test_damage_of_a_cut_file_is_named(tmp_path):
    path = written(tmp_path / "beats.dgs", [(row, row) for row in range(10)])
    cut(path, NAME, below=8, least=1)
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            read(path)


def test_a_reader_that_is_too_far_behind_says_so(tmp_path):
    path = written(tmp_path / "beats.dgs", [(row, row) for row in range(10)])
    reader = RecordReader(path, NAME)
    reader.poll(until=2)
    cut(path, NAME, below=8, least=1)
    with pytest.raises(CorruptFileError, match="8 records were cut off, and only 2 of them were read"):
        reader.poll()
