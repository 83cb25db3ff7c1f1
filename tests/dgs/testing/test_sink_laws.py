"""The suite for sinks: our own sinks keep its laws, and each law finds a sink that breaks it."""

import json
import os
import sqlite3
from contextlib import closing

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dgs.connectors import Sink, ids
from dgs.errors import UserCodeError
from dgs.job.schema import SinkConfig
from dgs.testing import LawBroken, check_sink
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.files.places import output_places
from dgs.workers.sinks.files.publishing import discard_unpublished, publish
from tests.selection import rest_is_slow


class Folder(Sink):
    """A file for each epoch and host, in its place once it is published: the correct base of the wrong sinks."""

    def __init__(self, folder):
        self.folder, self.lines = folder, {}

    def begin(self, generation):
        for path in self.folder.glob("*.draft"):
            path.unlink()

    def open(self, generation, host):
        self.name = f"{generation.number:03}-{host}"

    def write(self, batch, epoch):
        self.lines.setdefault(epoch, []).extend(map(json.dumps, batch.to_list()))

    def stage(self, epoch):
        name = f"{epoch:06}-{self.name}"
        lines = self.lines.pop(epoch, [])
        (self.folder / f"{name}.draft").write_text("".join(f"{line}\n" for line in lines))
        return name

    def publish(self, staged):
        for name in staged:
            if (self.folder / f"{name}.draft").exists():
                (self.folder / f"{name}.draft").rename(self.folder / f"{name}.json")


def in_folder(folder):
    return [
        json.loads(line) for path in sorted(folder.glob("*.json")) for line in path.read_text().splitlines()
    ]


class Table(Sink):
    """A table with the outputs by their ids."""

    def __init__(self, folder):
        self.path = folder / "out.db"
        self.run(
            "CREATE TABLE IF NOT EXISTS outputs (stream, seq, idx, value, PRIMARY KEY (stream, seq, idx))"
        )

    def run(self, statement, rows=((),)):
        with closing(sqlite3.connect(self.path, timeout=1)) as db, db:
            db.executemany(statement, rows)

    def write(self, batch, epoch):
        rows = [(*one, value) for one, value in zip(ids(batch), batch.to_list(), strict=True)]
        self.run("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", rows)

    def stage(self, epoch):
        return None


def in_table(folder):
    with closing(sqlite3.connect(folder / "out.db")) as db:
        return [value for (value,) in db.execute("SELECT value FROM outputs ORDER BY seq, idx")]


def test_sinks_that_keep_the_laws_pass(tmp_path):
    check_sink(lambda: Folder(tmp_path), lambda: in_folder(tmp_path))
    check_sink(lambda: Table(tmp_path), lambda: in_table(tmp_path))


class Ours(Sink):
    """One of our own sinks as a user's sink."""

    def __init__(self, config, folder):
        self.config, self.folder = SinkConfig.model_validate(config), folder

    def begin(self, generation):
        discard_unpublished(
            output_places([self.config], output_dir=self.folder, base_dir=self.folder, run=generation.run)
        )

    def open(self, generation, host):
        self.sink = open_sink(
            self.config,
            output_dir=self.folder,
            base_dir=self.folder,
            host=host,
            generation=generation.number,
            by_epoch=True,
            run=generation.run,
        )

    def write(self, batch, epoch):
        self.sink.write(batch, epoch)

    def stage(self, epoch):
        staged = self.sink.stage(epoch)
        assert staged.unaccepted == ()
        return staged.files

    def close(self):
        if hasattr(self, "sink"):
            self.sink.close()

    def abort(self):
        self.sink.abort()


class OurFiles(Ours):
    def publish(self, staged):
        publish([file for files in staged for file in files if isinstance(file, StagedFile)])


def lines_of(folder):
    return [
        json.loads(line)
        for path in sorted(folder.glob("part-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def cells_of(folder):
    return [
        value
        for path in sorted(folder.glob("part-*.csv"))
        for value in pyarrow.csv.read_csv(path).column(0).to_pylist()
    ]


def rows_of(folder):
    return [
        value
        for path in sorted(folder.glob("part-*.parquet"))
        for value in pq.read_table(path).column(0).to_pylist()
    ]


FILES = [("jsonl", lines_of), ("csv", cells_of), ("parquet", rows_of), ("spark", rows_of)]
MODES = pytest.mark.parametrize("mode", rest_is_slow([None, "append"]))


@MODES
@pytest.mark.parametrize(("kind", "read"), FILES)
def test_our_files_keep_the_laws(tmp_path, kind, read, mode):
    check_sink(lambda: OurFiles({kind: {"path": ".", "mode": mode}}, tmp_path), lambda: read(tmp_path))


@MODES
def test_our_database_keeps_the_laws(tmp_path, mode):
    def read():
        with closing(sqlite3.connect(tmp_path / "out.db")) as db:
            return [
                json.loads(value) for (value,) in db.execute("SELECT value FROM outputs ORDER BY seq, idx")
            ]

    check_sink(lambda: Ours({"sqlite": {"path": "out.db", "mode": mode}}, tmp_path), read)


# mutants: each breaks one law


class ShowsWhatItWrites(Folder):
    def write(self, batch, epoch):
        super().write(batch, epoch)
        (self.folder / f"early-{epoch}-{self.name}.json").write_text(
            "".join(f"{line}\n" for line in self.lines[epoch])
        )


class PublishesWhenItStages(Folder):
    def stage(self, epoch):
        name = super().stage(epoch)
        super().publish([name])
        return name


class StagesLaterEpochsToo(Folder):
    def stage(self, epoch):
        self.lines[epoch] = [line for lines in self.lines.values() for line in lines]
        return super().stage(epoch)


class LosesOnAbort(Folder):
    def stage(self, epoch):
        self.staged = self.folder / f"{super().stage(epoch)}.draft"
        return self.staged.stem

    def abort(self):
        self.staged.unlink()


class LosesOnClose(Folder):
    def stage(self, epoch):
        self.staged = self.folder / f"{super().stage(epoch)}.draft"
        return self.staged.stem

    def close(self):
        if hasattr(self, "staged"):
            self.staged.unlink(missing_ok=True)


class PublishesTwice(Folder):
    """Appends to one file."""

    def publish(self, staged):
        with (self.folder / "all.json").open("a") as file:
            file.writelines((self.folder / f"{name}.draft").read_text() for name in staged)


class PublishesAllThatIsStaged(Folder):
    def publish(self, staged):
        super().publish([path.stem for path in self.folder.glob("*.draft")])


class ForgetsToDiscard(PublishesAllThatIsStaged):
    def begin(self, generation):
        super().publish([])


class HasOneNameForAllGenerations(Folder):
    """A host of an older generation overwrites files that a newer one has staged."""

    def open(self, generation, host):
        self.name = f"{host}"

    def publish(self, staged):
        for name in staged:
            draft, final = self.folder / f"{name}.draft", self.folder / f"{name}.json"
            if draft.exists():
                final.write_text((final.read_text() if final.exists() else "") + draft.read_text())
                draft.unlink()


class AddsToWhatWasStaged(Folder):
    def stage(self, epoch):
        path = self.folder / f"{epoch:06}-{self.name}.draft"
        before = path.read_text() if path.exists() else ""
        name = super().stage(epoch)
        path.write_text(before + path.read_text())
        return name


class PublishesInTwoSteps(Folder):
    """Writes the published file, then removes the draft: a crash in between repeats it."""

    def publish(self, staged):
        for name in staged:
            draft = self.folder / f"{name}.draft"
            if draft.exists():
                text = draft.read_text()
                with (self.folder / "all.json").open("a") as file:
                    file.write(text)
                draft.unlink()


class ReversesLines(Folder):
    def stage(self, epoch):
        self.lines.get(epoch, []).reverse()
        return super().stage(epoch)


class KnowsItsRunFromBegin(Folder):
    """Records published epochs under the run of its `begin`, but another process may publish before `begin`."""

    def publish(self, staged):
        done = self.folder / f"{getattr(self, 'run', '')}.done"
        for name in staged:
            if name not in (done.read_text() if done.exists() else ""):
                with done.open("a") as file, (self.folder / "all.json").open("a") as rows:
                    file.write(name)
                    rows.write((self.folder / f"{name}.draft").read_text())

    def begin(self, generation):
        self.run = generation.run


class StagesNoPlainData(Folder):
    def stage(self, epoch):
        return self.folder


class HasNoKey(Table):
    def write(self, batch, epoch):
        rows = [
            (f"{one} {os.urandom(8).hex()}", *rest, value)
            for (one, *rest), value in zip(ids(batch), batch.to_list(), strict=True)
        ]
        self.run("INSERT INTO outputs VALUES (?, ?, ?, ?)", rows)


class TakesEventsForOutputs(Table):
    """Its key has no index, so one of two outputs of an event is lost."""

    def write(self, batch, epoch):
        rows = [(*one[:2], 0, value) for one, value in zip(ids(batch), batch.to_list(), strict=True)]
        self.run("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", rows)


class TakesStreamsForOne(Table):
    """Its key has no stream, so of rows with equal numbers in two streams one is lost."""

    def write(self, batch, epoch):
        rows = [("", *one[1:], value) for one, value in zip(ids(batch), batch.to_list(), strict=True)]
        self.run("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", rows)


class KeepsUntilItCloses(Table):
    def __init__(self, folder):
        super().__init__(folder)
        self.kept = []

    def write(self, batch, epoch):
        self.kept.append(batch)

    def close(self):
        for batch in self.kept:
            super().write(batch, 0)


class TakesBackOnAbort(Table):
    def abort(self):
        self.run("DELETE FROM outputs WHERE seq > 0")


WRONG = [
    (ShowsWhatItWrites, "hidden", "before epoch 1 was published, 0 is visible, but must not be"),
    (PublishesWhenItStages, "hidden", "before epoch 1 was published"),
    (StagesLaterEpochsToo, "durable", "after epoch 1 was published, 4 is visible, but must not be"),
    (LosesOnAbort, "durable", "after the hosts have aborted or closed and epoch 2 was published"),
    (LosesOnClose, "durable", "after the hosts have aborted or closed and epoch 2 was published"),
    (PublishesTwice, "once", "after the same was published again, 0 is there 2 times"),
    (PublishesAllThatIsStaged, "discard", "which a lost generation had staged too"),
    (ForgetsToDiscard, "discard", "after a generation was lost that had staged epoch 3"),
    (HasOneNameForAllGenerations, "discard", "which a lost generation had staged too"),
    (AddsToWhatWasStaged, "once", "after a part was staged again in place of what was lost"),
    (PublishesInTwoSteps, "once", "of `publish`, which was then called again"),
    (KnowsItsRunFromBegin, "once", "by an object that has not begun, 0 is there 2 times"),
    (ReversesLines, "order", "an output of the same tag that was written later"),
    (StagesNoPlainData, "plain", "`stage` did not return plain data"),
]
AT_ONCE = [
    (HasNoKey, "once", "after the outputs of epoch 2 came again, with the same ids, 4 is there 2 times"),
    (TakesEventsForOutputs, "durable", "after epoch 1 was staged, 0 is missing"),
    (TakesStreamsForOne, "durable", "after epoch 1 was staged, 0 is missing"),
    (KeepsUntilItCloses, "durable", "after epoch 1 was staged, 0 is missing"),
    (TakesBackOnAbort, "durable", "after epoch 2 was staged and the hosts have aborted, 4 is missing"),
]
ALL = [*((in_folder, *wrong) for wrong in WRONG), *((in_table, *wrong) for wrong in AT_ONCE)]


@pytest.mark.parametrize(("read", "sink", "law", "problem"), ALL, ids=[sink.__name__ for _, sink, *_ in ALL])
def test_each_law_finds_the_sink_that_breaks_it(tmp_path, read, sink, law, problem):
    with pytest.raises(LawBroken) as caught:
        check_sink(lambda: sink(tmp_path), lambda: read(tmp_path))
    assert (caught.value.law, problem in str(caught.value)) == (law, True), str(caught.value)
    assert str(caught.value).startswith(f"sink {sink.__name__} breaks the law `{law}`: ")


class KeepsTheLock(Table):
    """Holds a transaction open between two calls: other hosts wait for it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.db = sqlite3.connect(self.path, timeout=0.1)

    def write(self, batch, epoch):
        rows = [(*one, value) for one, value in zip(ids(batch), batch.to_list(), strict=True)]
        self.db.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", rows)

    def stage(self, epoch):
        self.db.commit()


def test_leftover_lock_shows(tmp_path):
    kept = []

    def make():
        kept.append(KeepsTheLock(tmp_path))
        return kept[-1]

    try:
        with pytest.raises(UserCodeError, match="database is locked"):
            check_sink(make, lambda: in_table(tmp_path))
    finally:
        for sink in kept:
            sink.db.close()


def test_order_is_not_asked_where_there_is_none(tmp_path):
    check_sink(lambda: ReversesLines(tmp_path), lambda: in_folder(tmp_path), ordered=False)


def test_values_may_be_what_the_sink_can_hold(tmp_path):
    check_sink(lambda: Folder(tmp_path), lambda: in_folder(tmp_path), value=lambda number: {"n": number})
