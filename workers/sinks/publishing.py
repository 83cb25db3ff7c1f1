"""Staged files get their final names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dgs.errors import OutputUnwritableError
from workers.checkpoints.contract import StagedFile
from workers.sinks.part_file import refusing


def publish(files: Sequence[StagedFile]) -> None:
    """Rename staged files to their final names, durably. What is done already is left as it is.

    Raises OutputUnwritableError naming the file if one is under neither name.
    """
    for file in files:
        path, final = Path(file.path), Path(file.final)
        with refusing(final):
            if path.exists():
                path.replace(final)
            elif not final.exists() or final.stat().st_size != file.size:
                raise OutputUnwritableError(path=path, problem="this staged file of outputs is gone")
    for directory in sorted({Path(file.final).parent for file in files}):
        with refusing(directory):
            sync_directory(directory)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
