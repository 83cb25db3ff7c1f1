"""Outputs that hosts send to the caller: for sinks in its process, for `collect`, and events that were left out."""

from __future__ import annotations

from collections.abc import Iterable

from dgs.model.outputs import OutputBatch
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.runtime.job import Job
from dgs.workers.sinks import HostSink, is_central, open_sink


class CallerOutputs:
    """Writes outputs to the sinks of the caller (stdout, memory), and keeps them if the job collects outputs (`outputs`).

    These sinks can neither take an output back nor recognise a repeat. So outputs wait here until their epoch is committed. Only
    stdout gets them at once if the run takes no checkpoints or `delivery` is `at_least_once`.
    """

    def __init__(self, job: Job) -> None:
        configs = [config for config in job.sinks if is_central(config)]
        holds = job.checkpoint is not None and job.delivery == "exactly_once"
        self._at_once: list[HostSink] = []
        self._sinks: list[HostSink] = []
        for config in configs:
            sink = open_sink(config, output_dir=job.output_dir, base_dir=job.base_dir, host=0)
            (self._sinks if holds or config.kind == "memory" else self._at_once).append(sink)
        self._collect = job.collect
        self._may_repeat = job.delivery == "at_least_once"
        self._held: dict[int, list[OutputBatch | DeadLetter]] = {}
        self._has_shown = False
        self.outputs: list[OutputBatch] = []
        self.skipped = 0
        self.dead_letters: list[DeadLetter] = []

    @staticmethod
    def is_needed(job: Job) -> bool:
        """Return whether hosts must send outputs to the caller."""
        return job.collect or any(is_central(config) for config in job.sinks)

    def write(self, made: Iterable[tuple[int, OutputBatch | DeadLetter]]) -> None:
        """Take outputs of a host and the events that it left out, each with its epoch."""
        for epoch, batch in made:
            if isinstance(batch, DeadLetter):
                self._held.setdefault(epoch, []).append(batch)
                continue
            for sink in self._at_once:
                sink.write(batch, epoch)
                self._has_shown = True
            if self._sinks or self._collect:
                self._held.setdefault(epoch, []).append(batch)

    def commit(self, epoch: int) -> None:
        """Release the outputs of an epoch and of earlier ones, since these are committed."""
        for due in sorted(number for number in self._held if number <= epoch):
            for batch in self._held.pop(due):
                self._release(due, batch)
        for sink in (*self._sinks, *self._at_once):
            sink.stage(epoch)

    @property
    def can_discard(self) -> bool:
        """Whether the run may start again without showing an output twice that must be shown once."""
        return self._may_repeat or not self._has_shown

    def discard(self) -> None:
        """Forget outputs that are not committed. The run goes on from its last checkpoint, and makes them again."""
        self._held.clear()

    def _release(self, epoch: int, batch: OutputBatch | DeadLetter) -> None:
        if isinstance(batch, DeadLetter):
            self.skipped += 1
            if self._collect:
                self.dead_letters.append(batch)
            return
        for sink in self._sinks:
            sink.write(batch, epoch)
        if self._collect:
            self.outputs.append(batch)

    def close(self, *, complete: bool) -> None:
        """End the run: no more outputs will come, and those held here are not committed."""
        for sink in (*self._sinks, *self._at_once):
            if complete:
                sink.close()
            else:
                sink.abort()
