"""The places of output files, and their names.

A run without checkpoints writes one file per host: `part-0.jsonl`. A checkpointed run writes one per epoch and host. Until the
commit, the name contains the generation, so that a host left over from before a restart never writes to the same file.

>>> names = PartNames(Place(Path("out"), "jsonl"), host=3, generation=2, by_epoch=True)
>>> names.final(epoch=7).name, names.partial(epoch=7).name, names.final(epoch=7, number=1).name
('part-000007-3.jsonl', 'part-000007-3.g2.jsonl.partial', 'part-000007-3-1.jsonl')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dgs.job import private_files
from dgs.job.schema import SinkConfig, SparkTable
from dgs.job.schema_runtime import OutputMode

PARTIAL = ".partial"
FILE_KINDS = ("jsonl", "csv", "parquet", "spark")

LAKE_KINDS = ("delta", "iceberg")

CONNECTED = ("custom", *LAKE_KINDS)
"""Kinds of sinks that have an object in the process that starts the run."""

TRANSACTIONAL = (*FILE_KINDS, *CONNECTED)
"""Kinds of sinks whose outputs become visible at a commit. The others remember which outputs they have accepted."""

RUN_LETTERS = 8
"""The letters of a run's id in the names of files that it appends."""

HIDDEN = "_"
"""Spark, and most readers of directories of Parquet, ignore files whose names begin with it."""

WAREHOUSE = "spark-warehouse"
"""The directory of named tables, beside the plan file. Spark has the same default name."""


@dataclass(frozen=True, slots=True)
class Place:
    """The files `<stem>-....<suffix>` of a directory. `mark`: a prefix for the names of files that are not committed yet.

    `mode`: what a new run does with existing files.
    `is_private`: the place is in the run directory, so its files get the modes of all files there. Elsewhere the user's umask counts.
    """

    directory: Path
    suffix: str
    stem: str = "part"
    mark: str = ""
    mode: OutputMode | None = None
    is_private: bool = False

    def of_run(self, run: str) -> Place:
        """Return the place of one run. If outputs are appended, its files have names with the run's id."""
        return (
            replace(self, stem=f"{self.stem}-{run[:RUN_LETTERS]}") if run and self.mode == "append" else self
        )

    @property
    def opener(self) -> Callable[[str, int], int] | None:
        """The opener of its files, for `open`."""
        return private_files.opener if self.is_private else None

    def make(self) -> None:
        """Make the directory. Raises OSError."""
        if self.is_private:
            private_files.make_directory(self.directory)
        else:
            self.directory.mkdir(parents=True, exist_ok=True)

    def finals(self) -> list[Path]:
        """Return the files with final names."""
        return sorted(self.directory.glob(f"{self.stem}-*.{self.suffix}"))

    def partials(self) -> list[Path]:
        """Return the files without final names."""
        return sorted(self.directory.glob(f"{self.mark}{self.stem}-*.{self.suffix}{PARTIAL}"))

    def partial_of(self, final: Path) -> Path:
        """Return the name of the file that becomes `final`, in a run without checkpoints."""
        return final.with_name(f"{self.mark}{final.name}{PARTIAL}")


@dataclass(frozen=True, slots=True)
class PartNames:
    """The names of the files that one host writes to a place. `number` counts the files of one epoch."""

    place: Place
    host: int
    generation: int = 1
    by_epoch: bool = False

    def final(self, epoch: int, number: int = 0) -> Path:
        """Return the name of a file after its commit."""
        return self.place.directory / f"{self._stem(epoch, number)}.{self.place.suffix}"

    def partial(self, epoch: int, number: int = 0) -> Path:
        """Return the name of a file before its commit."""
        generation = f".g{self.generation}" if self.by_epoch else ""
        name = f"{self._stem(epoch, number)}{generation}.{self.place.suffix}"
        return self.place.partial_of(self.place.directory / name)

    def _stem(self, epoch: int, number: int) -> str:
        parts = [self.place.stem, *([f"{epoch:06d}"] if self.by_epoch else []), str(self.host)]
        return "-".join([*parts, str(number)] if number else parts)


def dead_letter_place(output_dir: Path) -> Place:
    """Return the place of a run's dead letters."""
    return Place(output_dir, "jsonl", stem="dead-letter", is_private=True)


def sink_place(config: SinkConfig, *, output_dir: Path, base_dir: Path, run: str = "") -> Place:
    """Return the place of a file sink: its path relative to `base_dir`, or `output_dir` if it has no path. `run`: see `Place.of_run`."""
    mode = config.details.mode
    if config.kind == "spark":
        return Place(table_place(config.details, base_dir), "parquet", mark=HIDDEN, mode=mode).of_run(run)
    path = config.details.path
    directory = base_dir / path if path else output_dir
    is_private = directory.is_relative_to(output_dir)
    return Place(directory, config.kind, mode=mode, is_private=is_private).of_run(run)


def table_place(config: SparkTable, base_dir: Path) -> Path:
    """Return the directory of a table: its path, or its name in the warehouse beside the plan file."""
    if config.path is not None:
        return base_dir / config.path
    return base_dir / WAREHOUSE / str(config.table).replace(".", "/")


def output_places(
    sinks: Iterable[SinkConfig],
    *,
    output_dir: Path,
    base_dir: Path,
    dead_letters: bool = False,
    run: str = "",
) -> tuple[Place, ...]:
    """Return all places of a run's output files. `dead_letters`: also that of its dead letters."""
    files = tuple(
        sink_place(sink, output_dir=output_dir, base_dir=base_dir, run=run)
        for sink in sinks
        if sink.kind in FILE_KINDS
    )
    return (*files, dead_letter_place(output_dir)) if dead_letters else files
