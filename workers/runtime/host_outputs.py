"""Outputs of the hosts, by epoch: for their sinks, as dead letters, and for the caller.

An output belongs to the open epoch of its worker. When all workers of the host have closed an epoch, its outputs are staged:
they are durable, but have no final names until the epoch is committed.

Hosts send the caller the outputs for stdout or for `collect`, and the events that were left out. The sink `memory` is the same as
`collect`. Collected outputs and those that wait for a commit or for the reader of stdout share `buffer_bytes` of memory; the rest is on disk.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgs.job import private_files
from dgs.model.outputs import OutputBatch, Stamps
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.observing.figures import SinkFigures
from dgs.workers.protocol.messages import Skipped
from dgs.workers.protocol.worker import Worker
from dgs.workers.recovery.coordinator import Epochs, HostReport
from dgs.workers.recovery.positions import declared
from dgs.workers.runtime import process
from dgs.workers.runtime.deployment import Deployment
from dgs.workers.runtime.job import Job
from dgs.workers.sinks import is_central, open_sink
from dgs.workers.sinks.contract import HostSink, Staged, Waiting
from dgs.workers.sinks.dead_letters import DeadLetters, dead_letters
from dgs.workers.sinks.files.places import TRANSACTIONAL
from dgs.workers.sinks.formats.json_text import as_json
from dgs.workers.sinks.kept_outputs import HeldOutputs, KeptOutputs, Room, StdoutSink
from dgs.workers.sinks.opening import named_sinks, put
from dgs.workers.storage.disk import refusing, sync_file

LOOK_SECONDS = 0.05
"""Seconds between two looks whether a run that only waits for the reader of stdout is to end."""


class CallerOutputs:
    """Prints outputs on stdout, and keeps them if the job collects outputs (`outputs`).

    Neither can take an output back or recognise a repeat. So outputs wait here until their epoch is committed. Only stdout gets
    them at once if the run takes no checkpoints or `delivery` is `at_least_once`.

    A write to stdout never blocks. What the reader has not taken when the run ends is kept in the run directory (`Job.unprinted_path`), and
    a resumed run prints it first.
    """

    def __init__(self, job: Job) -> None:
        holds = job.checkpoint is not None and job.delivery == "exactly_once"
        prints = any(config.kind == "stdout" for config in job.sinks)
        self._prints_at_once, self._prints_committed = prints and not holds, prints and holds
        self._collect = job.collect
        self._may_repeat = job.delivery == "at_least_once"
        self._room, self._directory = Room(job.runtime.buffer_bytes), job.output_dir
        self.held = HeldOutputs(self._room, self._directory)
        self._letters: list[tuple[int, DeadLetter]] = []
        self._stdout, self._unprinted = StdoutSink(), deque[KeptOutputs]()
        self._has_shown = False
        self.outputs = KeptOutputs(self._room, self._directory)
        self.skipped = 0
        self.dead_letters: list[DeadLetter] = []
        self._unprinted_file = job.unprinted_path if prints else None
        if job.resumes and self._unprinted_file is not None and self._unprinted_file.exists():
            self._stdout.put(_lines_of(self._unprinted_file))

    @staticmethod
    def is_needed(job: Job) -> bool:
        """Return whether hosts must send outputs to the caller."""
        return job.collect or any(config.kind == "stdout" for config in job.sinks)

    @property
    def is_behind(self) -> bool:
        """Whether outputs wait for the reader of stdout."""
        return self._stdout.is_behind

    @property
    def is_full(self) -> bool:
        """Whether so many outputs wait for the reader of stdout that the run must not make more."""
        return sum(kept.bytes for kept in self._unprinted) > self._room.bound

    @property
    def waiting(self) -> str:
        """A sentence that says how much waits for the reader of stdout."""
        size = sum(kept.bytes for kept in self._unprinted)
        return f"the reader of stdout takes nothing; {size // 2**20:,} MiB of outputs wait for it, and no input is read"

    def write(self, made: Iterable[tuple[int, OutputBatch | DeadLetter]]) -> None:
        """Take outputs of a host and the events that it left out, each with its epoch; print what can be printed now."""
        self.keep(made)
        self._stdout.show()

    def keep(self, made: Iterable[tuple[int, OutputBatch | DeadLetter]]) -> None:
        """Take outputs of a host and the events that it left out, each with its epoch, and print nothing yet."""
        for epoch, batch in made:
            if isinstance(batch, DeadLetter):
                self._letters.append((epoch, batch))
                continue
            if self._prints_at_once:
                self._has_shown = True
                self._tail().append(batch)
            if self._prints_committed or self._collect:
                self.held.add(epoch, batch)

    def _tail(self) -> KeptOutputs:
        """Return the queue for outputs that are printed at once. The first queue is being printed."""
        if len(self._unprinted) <= 1:
            self._print(KeptOutputs(self._room, self._directory))
        return self._unprinted[-1]

    def _print(self, kept: KeptOutputs) -> None:
        self._unprinted.append(kept)
        self._stdout.put(self._lines(kept))

    def _lines(self, kept: KeptOutputs) -> Iterator[str]:
        for batch in kept:
            yield from (as_json(value) + "\n" for value in batch.to_list())
        self._unprinted.remove(kept)
        kept.close()

    def commit(self, epoch: int) -> None:
        """Release the outputs of an epoch and of earlier ones, since these are committed."""
        for due in (number for number in self.held.epochs if number <= epoch):
            kept = self.held.take(due)
            if self._prints_committed:
                for batch in kept if self._collect else ():
                    self.outputs.append(batch)
                self._print(kept)
            else:
                self.outputs.take_over(kept)
        committed = [letter for due, letter in self._letters if due <= epoch]
        self._letters = [(due, letter) for due, letter in self._letters if due > epoch]
        self.skipped += len(committed)
        self.dead_letters += committed if self._collect else []
        self._stdout.show()

    @property
    def can_discard(self) -> bool:
        """Whether the run may start again without printing an output twice against its `delivery`."""
        return self._may_repeat or not self._has_shown

    def discard(self) -> None:
        """Forget outputs that are not committed. The run goes on from its last checkpoint, and makes them again."""
        self.held.clear()
        self._letters.clear()

    def print_rest(self, is_over: Callable[[float], bool]) -> None:
        """Print what waits for the reader of stdout, until `is_over`, which gets the seconds since it last took something."""
        taken = time.monotonic()
        while self.is_behind and not is_over(time.monotonic() - taken):
            if self._stdout.show(within=LOOK_SECONDS):
                taken = time.monotonic()

    def close(self) -> Path | None:
        """End the run: no more outputs will come, and those held here are not committed.

        Return the file that keeps the others that are not printed; None if all are, or the run leaves no files. Raises
        OutputUnwritableError.
        """
        self.discard()
        if self._unprinted_file is None:
            return None
        if self.is_behind:
            _keep(self._unprinted_file, self._stdout.left())
            return self._unprinted_file
        with refusing(self._unprinted_file):
            self._unprinted_file.unlink(missing_ok=True)
        return None


def _lines_of(path: Path) -> Iterator[str]:
    with refusing(path), open(path, encoding="utf-8", newline="\n", opener=private_files.opener) as file:
        yield from file


def _keep(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a file. Some of them may come from that file."""
    new = path.with_name(f"{path.name}.new")
    with refusing(path), open(new, "w", encoding="utf-8", opener=private_files.opener) as file:
        file.writelines(lines)
        sync_file(file)
    with refusing(path):
        new.replace(path)


Describe = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Returns the current descriptions of the host's sources."""


class HostOutputs:
    """The outputs of one host. `workers`: the workers of that host."""

    def __init__(self, deployment: Deployment, index: int, workers: Mapping[str, Worker]) -> None:
        job = deployment.job
        self._index, self._workers, self._point = index, workers, deployment.point
        self._splits = job.splits
        self._by_epoch = job.is_kept or self._point.epoch > 0
        self._stamps = Stamps.of(job.program.stamps)
        self._epochs = Epochs(workers, self._point.epoch)
        self._done = dict.fromkeys(workers, 0)  # the events of each worker when it last closed an epoch
        self._of_epoch: Counter[int] = Counter()
        self._keeps_outputs = CallerOutputs.is_needed(job)
        self._keeps_payloads = job.collect
        self._seen: list[tuple[int, OutputBatch | DeadLetter]] = []
        self._sinks: list[MeasuredSink] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.by_worker: Counter[str] = Counter()
        self.dead_lettered: Counter[str] = Counter()
        self._letters: DeadLetters | None = None
        self.count = 0
        self.first: float | None = None
        with ExitStack() as opened:
            opened.callback(self.close, complete=False)
            self._open(deployment)
            opened.pop_all()

    def _open(self, deployment: Deployment) -> None:
        """Open the sinks and the dead letters of this host, and write the outbox to sinks that are not transactional."""
        job = deployment.job
        if not self._workers:
            return  # such a host closes no epochs, so outputs in its sinks would never be staged
        generation = self._point.generation
        for name, config in named_sinks(job.sinks):
            if not is_central(config):
                sink = open_sink(
                    config,
                    output_dir=job.output_dir,
                    base_dir=job.base_dir,
                    host=self._index,
                    generation=generation,
                    by_epoch=self._by_epoch,
                    run=job.run_id,
                    continues=self._point.epoch > 0,
                    epoch=self._point.epoch,
                    splits=self._splits,
                    program=job.program.name,
                    job=job.owner,
                    bound=job.runtime.buffer_bytes,
                    meanwhile=self._wait,
                )
                self._sinks.append(MeasuredSink(name, sink, config.kind in TRANSACTIONAL))
        if job.dead_letter_dir is not None:
            self._letters = dead_letters(
                job.dead_letter_dir, host=self._index, generation=generation, by_epoch=self._by_epoch
            )
        for batch in deployment.outbox(self._index):
            for sink in self._sinks:
                if not sink.is_transactional:
                    sink.write(batch, self._point.epoch)

    def _wait(self) -> None:
        self.meanwhile()

    def write(self, worker: str, batch: OutputBatch) -> None:
        """Take outputs of a worker. Transactional sinks do not get outputs that are already committed."""
        epoch = self._epochs.of(worker)
        if self._is_past_the_last_commit(epoch):
            return
        if self.first is None:
            self.first = process.now()
        put, of = (batch, None) if self._stamps is None else self._stamps.put(batch)
        new = put
        if self._point.epoch:
            splits = self._splits[declared(batch.stream)[0]]
            new = self._point.committed.outputs_above(batch, splits, put=(put, of))
        self.count += len(new)
        self.by_worker[worker] += len(new)
        self._of_epoch[epoch] += len(new)
        for sink in self._sinks:
            sink.write(new if sink.is_transactional else put, epoch)
        if self._keeps_outputs:
            self._seen.append((epoch, new))

    def leave_out(self, worker: str, skipped: Skipped) -> None:
        """Write the dead letter of an event that was left out, and count it for the caller, unless it is already committed."""
        epoch, letter = self._epochs.of(worker), skipped.letter
        if self._is_past_the_last_commit(epoch):
            return
        if not len(self._point.committed.above(skipped.event, self._splits[letter.stream])):
            return
        self.dead_lettered[letter.stream] += 1
        if self._letters is not None:
            self._letters.write(letter, epoch)
        self._seen.append((epoch, letter if self._keeps_payloads else replace(letter, payload=None)))

    def _is_past_the_last_commit(self, epoch: int) -> bool:
        """Return whether a run without checkpoints stops and the epoch is after its only checkpoint: it is never committed."""
        return not self._by_epoch and epoch > self._point.epoch + 1

    def close_epoch(self, worker: str, epoch: int, sources: Describe) -> HostReport | None:
        """Note that a worker has closed an epoch. If all workers have, stage the epoch and return the report."""
        self._done[worker] = self._workers[worker].events
        if not self._epochs.close(worker, epoch):
            return None
        about = sources()
        staged = [sink.stage(epoch) for sink in self._all()]
        return HostReport(
            self._index,
            epoch,
            tuple(file for part in staged for file in part.files),
            tuple(batch for part in staged for batch in part.unaccepted),
            {name: one["end"] for name, one in about.items() if one.get("end") is not None},
            about,
            events=sum(self._done.values()),
            outputs=self._of_epoch.pop(epoch, 0),
            holds={
                (sink.name, part): count
                for sink, of in zip(self._sinks, staged, strict=False)
                for part, count in of.holds.items()
            },
        )

    @property
    def waiting(self) -> str | None:
        """A sentence about a sink that waits for another process, None if there is none."""
        return next((found for sink in self._sinks if (found := sink.waiting) is not None), None)

    def figures(self) -> dict[str, SinkFigures]:
        """Return the figures of each sink on this host."""
        return {sink.name: sink.figures for sink in self._sinks}

    def _all(self) -> Iterator[MeasuredSink | DeadLetters]:
        yield from self._sinks
        if self._letters is not None:
            yield self._letters

    @property
    def are_seen(self) -> bool:
        """Whether there are outputs for the caller, or events that were left out."""
        return bool(self._seen)

    def take(self) -> list[tuple[int, OutputBatch | DeadLetter]]:
        """Remove and return outputs for the caller and events that were left out, each with its epoch."""
        taken, self._seen = self._seen, []
        return taken

    def close(self, *, complete: bool) -> None:
        """End the run on this host. If it is complete, all outputs are staged; else uncommitted ones stay `.partial`."""
        for sink in self._all():
            if complete:
                sink.close()
            else:
                sink.abort()


class MeasuredSink:
    """A `HostSink` that measures another one: the outputs that it takes, the bytes of their files, and the seconds of both.

    `is_transactional`: it must not get an output that is already committed.
    """

    def __init__(self, name: str, sink: HostSink, is_transactional: bool) -> None:
        self.name, self.is_transactional = name, is_transactional
        self._sink = sink
        self._outputs = self._bytes = 0
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def figures(self) -> SinkFigures:
        """The figures so far."""
        waits = self.waiting
        self._since = None if waits is None else self._since or process.now()
        return SinkFigures(self._outputs, self._bytes, self._seconds, waits=waits, since=self._since)

    @property
    def waiting(self) -> str | None:
        """A sentence about what the sink waits for, None if for nothing, or if it does not say so."""
        found = self._sink.waiting if isinstance(self._sink, Waiting) else None
        return None if found is None else f"sink {self.name!r} waits for {found}"

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs. Raises OutputUnwritableError."""
        began = time.perf_counter()
        put(self._sink, batch, epoch)
        self._seconds += time.perf_counter() - began
        self._outputs += len(batch)

    def stage(self, epoch: int) -> Staged:
        """Make all outputs of an epoch durable. Raises OutputUnwritableError."""
        began = time.perf_counter()
        staged = self._sink.stage(epoch)
        self._seconds += time.perf_counter() - began
        self._bytes += sum(file.size for file in staged.files)
        return staged

    def close(self) -> None:
        """Close the sink: the run is complete."""
        self._sink.close()

    def abort(self) -> None:
        """Close the sink after a failure."""
        self._sink.abort()
