"""A sink of a host with its figures: the outputs that it has taken, the bytes of their files, and the seconds that this took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.workers.observing.figures import SinkFigures
from dgs.workers.sinks.contract import HostSink, Staged


class MeasuredSink:
    """A `HostSink` that measures another one. `is_transactional`: it takes no output that is committed already."""

    def __init__(self, name: str, sink: HostSink, is_transactional: bool) -> None:
        self.name, self.is_transactional = name, is_transactional
        self._sink = sink
        self._outputs = self._bytes = 0
        self._seconds = 0.0

    @property
    def figures(self) -> SinkFigures:
        """The figures so far."""
        return SinkFigures(self._outputs, self._bytes, self._seconds)

    def write(self, batch: OutputBatch, epoch: int) -> None:
        """Take outputs. Raises OutputUnwritableError."""
        began = time.perf_counter()
        self._sink.write(batch, epoch)
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


def named_sinks(configs: Sequence[SinkConfig]) -> Iterator[tuple[str, SinkConfig]]:
    """Yield the sinks of a plan file with names: the kind, and a number for the second of a kind.

    >>> kinds = [SinkConfig(stdout=True), SinkConfig(jsonl={"path": "a"}), SinkConfig(jsonl={"path": "b"})]
    >>> [name for name, _ in named_sinks(kinds)]
    ['stdout', 'jsonl', 'jsonl 2']
    """
    seen: Counter[str] = Counter()
    for config in configs:
        seen[config.kind] += 1
        yield config.kind if seen[config.kind] == 1 else f"{config.kind} {seen[config.kind]}", config
