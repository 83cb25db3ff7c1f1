"""The publisher of a run: makes committed outputs visible, in the process that started the run.

>>> publisher = Publisher((), Path(), program="Sums")
>>> publisher.publish([])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dgs import codec
from dgs.errors.hidden_values import masked_data, revealed
from dgs.job.schema import SinkConfig
from dgs.workers.recovery.checkpoint import StagedFile, StagedOutput, StagedPart
from dgs.workers.sinks.custom_sink import ConnectedSink, Generation, connected_sink
from dgs.workers.sinks.files import publishing
from dgs.workers.sinks.files.places import CONNECTED, LAKE_KINDS


def connected_by(config: SinkConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a sink's class, or the kind of a lake, and its arguments.

    >>> connected_by(SinkConfig.model_validate({"delta": {"path": "out", "mode": "append"}}))[0]
    'delta'
    """
    if config.kind == "custom":
        return config.details.ref, config.details.args
    return config.kind, config.details.model_dump(exclude_defaults=True)


def connected(
    ref: str, args: Mapping[str, Any], base_dir: Path, *, program: str, job: Path | None = None
) -> ConnectedSink:
    """Return the sink of a name and arguments. `job`: whose outputs these are. Raises ProgramImportError, MissingPackageError."""
    if ref not in LAKE_KINDS:
        return connected_sink(ref, args, base_dir, program=program)
    from dgs.workers.sinks.lake.lake_sink import lake_sink

    return ConnectedSink(lake_sink(ref, args, base_dir, job), ref=ref, args=args, program=program)


class Publisher:
    """Publishes files, and parts of custom sinks and lake tables, with one object per sink. Raises ProgramImportError if one cannot be made.

    `job`: the job of these outputs, for the lists of files. Outputs that an earlier process has staged are checked before publishing.
    """

    def __init__(
        self, sinks: Iterable[SinkConfig], base_dir: Path, *, program: str, job: Path | None = None
    ) -> None:
        self._base_dir, self._program, self._job = base_dir, program, job
        self._has_begun = False
        self._sinks: dict[bytes, ConnectedSink] = {}
        self._own = [self._sink(*connected_by(config)) for config in sinks if config.kind in CONNECTED]

    def publish(self, staged: Sequence[StagedOutput]) -> None:
        """Publish staged outputs. Those that are already visible stay so.

        Raises OutputUnwritableError, OutputsChangedError, UserCodeError.
        """
        files = [file for file in staged if isinstance(file, StagedFile)]
        if not self._has_begun:
            publishing.check_staged(files)
        publishing.publish(files, self._job)
        parts: dict[ConnectedSink, list[bytes]] = {}
        for part in staged:
            if isinstance(part, StagedPart):
                parts.setdefault(self._sink(part.sink, part.args), []).append(part.staged)
        for sink, its in parts.items():
            sink.publish(its)

    @property
    def places(self) -> list[tuple[str, str]]:
        """The name of each sink of the job, with a text that identifies its place. Raises UserCodeError."""
        return [(sink.ref, sink.place(self._base_dir)) for sink in self._own]

    def begin(self, generation: Generation) -> None:
        """Tell the sinks that a generation begins. Raises UserCodeError."""
        self._has_begun = True
        for sink in self._own:
            sink.begin(generation)

    def close(self) -> None:
        """Close the sinks in this process. Raises UserCodeError."""
        for sink in self._sinks.values():
            sink.close()

    def _sink(self, ref: str, args: Mapping[str, Any]) -> ConnectedSink:
        """Return the sink with a name and arguments, from the job or from the checkpoint that the run resumes."""
        key = codec.encode((ref, masked_data(args)))
        if key not in self._sinks:
            self._sinks[key] = connected(
                ref, revealed(args), self._base_dir, program=self._program, job=self._job
            )
        return self._sinks[key]
