"""The suite for sources: our own sources keep its laws, and each law finds a source that breaks it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.connectors import Source
from dgs.errors import SourceChangedError
from dgs.job.schema import StreamConfig
from dgs.model.order import END, Heartbeat, OrderKey
from dgs.testing import LawBroken, check_source
from dgs.workers.event_log import LogWriter
from tests.workers.reading import opened
from tests.workers.sources.custom_sources import Numbers, Trickle

ROWS = [(number // 2, number) for number in range(40)]


class Right(Numbers):
    """A correct source, the base of the wrong ones."""

    def __init__(self):
        super().__init__(ROWS, size=3)


class Live(Trickle):
    def __init__(self):
        super().__init__(ROWS, size=3)


class Events(Right):
    """Single events, with heartbeats between."""

    def read(self, after):
        for columns, position in super().read(after):
            rows = list(zip(columns["ts"], columns["value"], strict=True))
            yield [*(("value", ts, value) for ts, value in rows), Heartbeat("s", rows[-1][0] - 1)], position


class EmptyPieces(Right):
    """Pieces without rows between those with some."""

    def read(self, after):
        for rows, position in super().read(after):
            yield {"ts": [], "value": []}, position - 3 if position % 3 == 0 else position - 1
            yield rows, position


@pytest.mark.parametrize("source", [Right, Live, Events, EmptyPieces])
def test_source_that_keeps_the_laws_passes(source):
    check_source(source, seconds=0.2)


class Declared(Source):
    """One of our own sources as a user's source: positions are row numbers."""

    def __init__(self, source, base_dir):
        self.config = StreamConfig.model_validate(
            {"id": "s", "tags": ["value"], "source": source, "payload": "value"}
        )
        self.base_dir = base_dir
        self.is_live = "log" in source
        self.source = self.made()

    def made(self):
        return opened(
            self.config,
            [{"ts": [ts for ts, _ in ROWS], "value": [value for _, value in ROWS]}],
            base_dir=self.base_dir,
            batch_rows=3,
        )

    def read(self, after):
        self.source = self.made()
        if after is not None:
            self.source.skip_to(OrderKey(0, 0, after))
        reading = None
        while reading is None or reading.frontier != END:
            reading = self.source.read()
            for batch in reading.batches:
                start = sum(seq < (after or 0) for seq in batch.seq.tolist())
                if start < len(batch):
                    yield batch.cut(start, len(batch)), int(batch.seq[-1]) + 1

    def describe(self):
        return dict(self.source.description)

    def changed(self, before):
        try:
            self.made().resume(before)
        except SourceChangedError as error:
            return error.problem
        return None


def write_csv(folder):
    for number, part in enumerate((ROWS[:25], ROWS[25:])):
        (folder / f"{number}.csv").write_text("ts,value\n" + "".join(f"{ts},{value}\n" for ts, value in part))
    return {"csv": {"path": "*.csv"}}


def write_jsonl(folder):
    (folder / "rows.jsonl").write_text("".join(f'{{"ts": {ts}, "value": {value}}}\n' for ts, value in ROWS))
    return {"jsonl": {"path": "rows.jsonl"}}


def write_parquet(folder):
    table = pa.table({"ts": [ts for ts, _ in ROWS], "value": [value for _, value in ROWS]})
    pq.write_table(table, folder / "rows.parquet", row_group_size=7)
    return {"parquet": {"path": "rows.parquet"}}


def write_generator(folder):
    (folder / "gen.py").write_text(
        f"ROWS = {ROWS}\n\n\ndef rows():\n"
        "    for start in range(0, len(ROWS), 7):\n"
        "        part = ROWS[start : start + 7]\n"
        '        yield {"ts": [ts for ts, _ in part], "value": [value for _, value in part]}\n'
    )
    return {"generator": {"ref": "gen.py:rows"}}


def write_socket(folder):
    """Write the rows that the port receives until the end of its stream."""
    write_log(folder, "socket:s")
    return {"socket": {"port": 0, "log": "log"}}


def write_spark(folder):
    """Write the rows of the query until its end, which is all that a host reads."""
    write_log(folder, "spark:s")
    return {"spark": {"format": "csv", "path": "in", "log": "log"}}


def write_log(folder, owner="w"):
    writer = LogWriter(folder / "log", "s", owner)
    for number in range(0, len(ROWS), 8):
        part = ROWS[number : number + 8]
        writer.append(number // 8, {"ts": [ts for ts, _ in part], "value": [value for _, value in part]})
    writer.close()
    return {"log": {"path": "log"}}


def make_custom(_folder):
    return {
        "custom": {
            "ref": "tests.workers.sources.custom_sources:Numbers",
            "args": {"rows": [list(row) for row in ROWS]},
        }
    }


OURS = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "generator": write_generator,
    "log": write_log,
    "socket": write_socket,
    "spark": write_spark,
    "custom": make_custom,
    "memory": lambda _folder: {"memory": "data"},
}


@pytest.mark.parametrize("written", OURS.values(), ids=OURS)
def test_our_own_sources_keep_the_laws(tmp_path, written):
    source = written(tmp_path)
    check_source(lambda: Declared(source, tmp_path))


# mutants: each breaks one law


class SkipsOnResume(Right):
    def read(self, after):
        yield from super().read(after if after is None else after + 1)


class RepeatsOnResume(Right):
    def read(self, after):
        yield from super().read(after if not after else after - 1)


class ForgetsPositions(Right):
    """Every position but the last leads to the beginning."""

    def read(self, after):
        yield from super().read(after if after == len(ROWS) else None)


class SkipsWhenItGoesOnTwice(Right):
    """After a resume it counts positions from there."""

    def read(self, after):
        for rows, position in super().read(after):
            yield rows, position - (after or 0) if position < len(ROWS) else position


class GoesBack(Right):
    def read(self, after):
        for rows, position in super().read(after):
            yield {**rows, "ts": [-ts for ts in rows["ts"]]}, position


class LateForItsHeartbeat(Events):
    def read(self, after):
        for rows, position in super().read(after):
            yield [Heartbeat("s", 19), *rows], position


class ConsumesTheRows(Right):
    """A source whose rows can be read by one object only."""

    left = None

    def read(self, after):
        kept = type(self)
        if kept.left is None:
            kept.left = list(super().read(None))
        while kept.left:
            yield kept.left.pop(0)


class SharesItsPlace(Right):
    """All objects that read at the same time share one position."""

    place = 0
    readers = 0

    def read(self, after):
        kept = type(self)
        kept.place = (after or 0) if kept.readers == 0 else kept.place
        kept.readers += 1
        try:
            while kept.place < len(ROWS):
                ts, value = ROWS[kept.place]
                kept.place += 1
                yield {"ts": [ts], "value": [value]}, kept.place
        finally:
            kept.readers -= 1


class AlwaysAnother(Right):
    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self.number = self.made

    def describe(self):
        return self.number


class TellsOnlyWhatItReadItself(Right):
    def read(self, after):
        self.first = after
        yield from super().read(after)

    def describe(self):
        return getattr(self, "first", None)

    def changed(self, before):
        return None


class SaysItHasChanged(Right):
    def changed(self, before):
        return "it looks different"


class NoPlainPositions(Right):
    def read(self, after):
        yield from ((rows, object()) for rows, _ in super().read(after))


class NoPairs(Right):
    def read(self, after):
        yield from (rows for rows, _ in super().read(after))


class NoTimes(Right):
    def read(self, after):
        yield from (({"value": rows["value"]}, position) for rows, position in super().read(after))


class ClosesForAll(Right):
    is_closed = False

    def read(self, after):
        if not self.is_closed:
            yield from super().read(after)

    def close(self):
        type(self).is_closed = True


class Empty(Right):
    def read(self, after):
        return iter(())


WRONG = [
    (SkipsOnResume, "resume", "behind position 3, row 3 (time 1) is left out: row 4 (time 2) comes first"),
    (RepeatsOnResume, "resume", "comes before row 3, again or from elsewhere"),
    (ForgetsPositions, "resume", "behind position 3, (0, 0) of time 0 comes before row 3"),
    (SkipsWhenItGoesOnTwice, "resume", "which an object that went on has named"),
    (GoesBack, "order", "row 2 has the time -1, after 0"),
    (LateForItsHeartbeat, "order", "after a heartbeat that says 19 is over"),
    (ConsumesTheRows, "repeat", "the second object that reads it, row 0 (time 0) is missing"),
    (SharesItsPlace, "repeat", "one of two objects that read it in turns"),
    (
        AlwaysAnother,
        "identity",
        "nothing has changed since the description of an object that has read nothing",
    ),
    (TellsOnlyWhatItReadItself, "identity", "one that went on half way and has read the rest as"),
    (SaysItHasChanged, "identity", "it looks different"),
    (NoPlainPositions, "plain", "yielded a position that is not plain data"),
    (NoPairs, "plain", "yielded dict, not a pair of rows and a position"),
    (NoTimes, "rows", "there is no column 'ts', only value"),
    (ClosesForAll, "repeat", "an object made after another was closed"),
    (Empty, "repeat", "it has no rows"),
]


@pytest.mark.parametrize(("source", "law", "problem"), WRONG, ids=[source.__name__ for source, *_ in WRONG])
def test_each_law_finds_the_source_that_breaks_it(source, law, problem):
    with pytest.raises(LawBroken) as caught:
        check_source(source, seconds=0.1)
    assert caught.value.law == law
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"source {source.__name__} breaks the law `{law}`: ")


def test_order_is_not_asked_of_streams_that_need_none():
    check_source(GoesBack, ordered=False)
