"""A decision about a row is on disk before it acts: crashes, jumps of the clock and other hosts do not change it."""

import time
from pathlib import Path
from random import Random

import pytest

from dgs.errors import CorruptFileError, OutOfOrderError, OutputUnwritableError, SourceChangedError
from dgs.job.schema import StreamConfig
from dgs.model.order import BEGIN, END
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.workers.event_log import LogWriter
from dgs.workers.recovery.checkpoint import Checkpoint
from dgs.workers.recovery.positions import Layer, Part, Positions
from dgs.workers.sources import SourceContext, open_source
from dgs.workers.sources.live.decisions import HEARTBEATS
from dgs.workers.sources.log_truncation import cut_heartbeats, heartbeats_cut
from dgs.workers.sources.rows import SECOND, LiveTime
from dgs.workers.storage import record_file
from dgs.workers.storage.record_file import RecordReader, RecordWriter
from tests.workers.reading import Kinds, rows

PLACE = Path("run") / "logs"
MS = SECOND // 1000


class Clock:
    """`elapsed` never jumps, `now` may."""

    def __init__(self):
        self.passed, self.ahead = 0, 10_000 * MS

    @property
    def time(self):
        return LiveTime(linger=0, elapsed=lambda: self.passed, now=lambda: self.passed + self.ahead)


def config(policy="drop", split=1, source=None):
    return StreamConfig.model_validate(
        {
            "id": "s",
            "tags": {"kind": "value"},
            "payload": [],
            "source": source or {"log": {"path": "log"}},
            "on_disorder": policy,
            "split": split,
            "heartbeat": {"every": "10ms", "max_delay": "5ms"},
        }
    )


def opened(tmp_path, time, settings=None, streams=None):
    context = SourceContext(Kinds(), "ms", tmp_path, {}, tmp_path / PLACE)
    return open_source(settings or config(), context, rank=0, batch_rows=3, time=time, streams=streams)


def read(source):
    """Read all available rows; return their numbers."""
    found = []
    while source.wait <= 0:
        found += [seq for *_, seq, _ in rows(source.read().batches)]
    return found


def events(tmp_path, settings=None):
    """Return the rows of the log as it is now, and the source."""
    source = opened(tmp_path, None, settings)
    found, frontier = [], BEGIN
    while frontier != END:
        reading = source.read()
        frontier = reading.frontier
        found += [seq for *_, seq, _ in rows(reading.batches)]
    return found, source


def quiet(source, clock, seconds=0.02):
    read(source)
    clock.passed += int(seconds * SECOND)
    return read(source)


def test_row_that_was_late_before_a_crash_is_late_after_it(tmp_path):
    """Meanwhile the clock of the machine is set back by a day. By that clock, the row would be in time."""
    clock, log = Clock(), LogWriter(tmp_path / "log", "s", "w")
    log.append(0, {"ts": [10_000]})
    before = opened(tmp_path, clock.time)
    assert read(before) == [0]
    quiet(before, clock)
    log.append(1, {"ts": [10_001, 10_030]}, keep_order=True)
    while before.wait > 0:  # the log is polled by the clock of the machine
        time.sleep(before.wait)
    clock.passed += SECOND
    assert read(before) == [2]
    assert before.drops == 1
    description = before.description
    before.close()
    clock.ahead -= 24 * 3600 * SECOND
    after = opened(tmp_path, clock.time)
    after.resume(description)
    assert read(after) == [0, 2]
    assert after.drops == 1
    found, source = events(tmp_path)
    assert (found, source.drops) == ([0, 2], 1)
    after.close()


def test_heartbeat_is_on_disk_before_it_acts(tmp_path, monkeypatch):
    """A full disk ends the run, and the frontier has not moved."""
    clock = Clock()
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": [9_000]})
    source = opened(tmp_path, clock.time)
    read(source)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record_file.os, "pwrite", full)
    with pytest.raises(OutputUnwritableError, match=r"heartbeats\.dgs.*No space left"):
        quiet(source, clock)
    source.close()
    monkeypatch.undo()
    assert RecordReader(tmp_path / PLACE / "s" / HEARTBEATS, "s").poll() == []


def fates(beats, times, delay):
    """Return the rows that are in time by the log and the heartbeats: by the definition, row by row."""
    kept, latest = [], -(2**62)
    for row, ts in enumerate(times):
        heard = max((beat + 1 for at, beat in beats if at <= row), default=-(2**62))
        if ts >= max(latest - delay, heard):
            kept.append(row)
            latest = max(latest, ts)
        elif delay:
            return kept, row
    return kept, None


class World:
    """A growing log, hosts that read its splits, clocks, and crashes of all of them. `seen`: the fate of each row."""

    def __init__(self, tmp_path, seed, policy):
        self.random, self.tmp_path, self.clock = Random(seed), tmp_path, Clock()
        self.settings = config(policy, split=self.random.choice([1, 2]))
        self.log = LogWriter(tmp_path / "log", "s", "w")
        self.times, self.seen, self.checkpoint = [], {}, None
        self.hosts = []
        self.failed_at = None
        self.noted = RecordReader(tmp_path / PLACE / "s" / HEARTBEATS, "s")
        self.beats = []
        self.begin()

    def begin(self):
        names = self.settings.impl_streams
        self.hosts = [opened(self.tmp_path, self.clock.time, self.settings, [name]) for name in names]
        self.frontiers = [BEGIN for _ in self.hosts]
        self.passed = [0 for _ in self.hosts]
        self.base = self.checkpoint or BEGIN
        if self.checkpoint is not None:
            for host, description in zip(self.hosts, self.described, strict=True):
                host.resume(description)
                if self.base > BEGIN:
                    host.skip_to(self.base)

    def append(self):
        now = (self.clock.passed + self.clock.ahead) // MS
        batch = [now - self.random.choice([0, 1, 3, 8, 30]) for _ in range(self.random.randint(1, 4))]
        self.log.append(self.log.next_batch, {"ts": batch}, keep_order=True)
        self.times += batch

    def read(self):
        index = self.random.randrange(len(self.hosts))
        host = self.hosts[index]
        if host.wait > 0:
            return
        try:
            reading = host.read()
        except OutOfOrderError as late:
            self.fail_at(late.row)
            return
        self.frontiers[index] = max(self.frontiers[index], reading.frontier)
        for batch in reading.batches:
            for ts, seq in zip(batch.ts.tolist(), batch.seq.tolist(), strict=True):
                if (ts, 0, seq) >= self.base[:3]:
                    assert self.seen.setdefault(seq, True), f"row {seq} was late, and is not now"
        self.note_late()

    def fail_at(self, row):
        assert self.failed_at in (None, row)
        self.failed_at = row
        self.crash()

    def note_late(self):
        """Note as late the rows below the frontier of their host that were not read."""
        for row, ts in enumerate(self.times):
            index = (row // 1024) % len(self.hosts)
            read_to = self.hosts[index].description["rows"]
            if row < read_to and (ts, 0, row) < self.frontiers[index][:3] and (ts, 0, row) >= self.base[:3]:
                self.seen.setdefault(row, False)

    def commit(self):
        if self.failed_at is None:
            self.checkpoint = max(self.base, min(self.frontiers))
            self.described = [host.description for host in self.hosts]
            self.cut()

    def cut(self):
        """Cut off the heartbeats that the checkpoint does not need."""
        self.beats += self.noted.poll()
        parts = (Part(0, TagSet.of(Tag("value")), self.checkpoint),)
        kept = Checkpoint(1, b"", Positions({"s": (Layer(1, parts),)}))
        cut_heartbeats(self.settings, self.context, [kept], rank=0)

    @property
    def context(self):
        return SourceContext(Kinds(), "ms", self.tmp_path, {}, self.tmp_path / PLACE)

    def crash(self):
        for host in self.hosts:
            host.close()
        self.clock.ahead += self.random.choice([0, 0, -1, 1]) * self.random.randrange(100_000) * MS
        self.begin()

    def step(self):
        self.random.choices(
            [self.append, self.read, self.pass_time, self.jump, self.commit, self.crash], [3, 12, 6, 1, 1, 1]
        )[0]()

    def pass_time(self):
        self.clock.passed += self.random.choice([1, 5, 11, 40]) * MS

    def jump(self):
        self.clock.ahead += self.random.randrange(-60, 60) * MS


@pytest.mark.parametrize("policy", ["drop", {"sort_within": "8ms"}])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_crashes_rows_have_the_fate_that_the_log_says(tmp_path, seed, policy, monkeypatch):
    monkeypatch.setattr(record_file, "CUT_LEAST", 10**6 if seed % 2 else 1)
    world = World(tmp_path, seed, policy)
    for _ in range(100):
        world.step()
    world.crash()
    for _ in range(150):
        world.read()
        world.clock.passed += MS  # heartbeats behind the last row exclude nothing
        if world.failed_at is not None:
            break
    kept, failed_at = fates(world.beats + world.noted.poll(), world.times, delay=0 if policy == "drop" else 8)
    assert world.failed_at == failed_at
    if failed_at is None:
        assert {row for row, is_kept in world.seen.items() if is_kept} <= set(kept)
        assert not {row for row, is_kept in world.seen.items() if not is_kept} & set(kept)
        is_whole = not heartbeats_cut(world.settings, world.context)
        assert not is_whole or sorted(events(tmp_path, world.settings)[0]) == kept
    for host in world.hosts:
        host.close()


def test_other_hosts_wait_for_the_one_that_decides(tmp_path):
    clock, log = Clock(), LogWriter(tmp_path / "log", "s", "w")
    log.append(0, {"ts": list(range(1030))})
    settings = config(split=2)
    other = opened(tmp_path, clock.time, settings, ["s/1"])
    assert read(other) == []
    decides = opened(tmp_path, clock.time, settings, ["s/0"])
    assert len(read(decides)) == 1024
    clock.passed += 20 * MS
    assert read(other) == list(range(1024, 1030))
    for source in (other, decides):
        source.close()


def test_heartbeats_that_were_lost_or_changed_are_missed(tmp_path):
    clock, log = Clock(), LogWriter(tmp_path / "log", "s", "w")
    log.append(0, {"ts": [10_000]})
    before = opened(tmp_path, clock.time)
    quiet(before, clock)
    quiet(before, clock)
    description = before.description
    before.close()
    path = tmp_path / PLACE / "s" / HEARTBEATS
    data = path.read_bytes()
    for wrong in (None, data[:-24], data[:8]):
        path.unlink() if wrong is None else path.write_bytes(wrong)
        after = opened(tmp_path, clock.time)
        with pytest.raises(SourceChangedError, match="entries"):
            after.resume(description)
        after.close()
    for bit in range(0, len(data) * 8, 7):
        path.write_bytes(data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :])
        with pytest.raises(CorruptFileError):
            opened(tmp_path, clock.time)


@pytest.mark.parametrize("torn", [b"\1", b"\1" * 23, bytes(24), bytes(40)])
def test_record_that_a_crash_has_torn_is_cut_off(tmp_path, torn):
    path = tmp_path / "records"
    writer = RecordWriter(path, "s")
    writer.append(1, 2)
    writer.close()
    path.write_bytes(path.read_bytes() + torn)
    again = RecordWriter(path, "s")
    again.append(3, 4)
    again.close()
    assert RecordReader(path, "s").poll() == [(1, 2), (3, 4)]
    with pytest.raises(CorruptFileError):
        RecordReader(path, "another").poll()


def test_records_have_one_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(record_file, "PATIENCE", 0)
    writer = RecordWriter(tmp_path / "records", "s")
    with pytest.raises(OutputUnwritableError, match="another process"):
        RecordWriter(tmp_path / "records", "s")
    writer.close()
    RecordWriter(tmp_path / "records", "s").close()
