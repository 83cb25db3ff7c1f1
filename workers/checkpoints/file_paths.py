"""Paths of output files in a record: relative to the directory of the plan file, if they are below it.

So a project can be moved or copied with its run directories and go on there. Files elsewhere keep their absolute paths.

>>> base = Path("/project")
>>> saved = relative((StagedFile("/project/out/a.partial", "/project/out/a", 3, "", 1),), base)
>>> saved[0].path, located(saved, Path("/copy"))[0].final
('out/a.partial', '/copy/out/a')
>>> relative((StagedFile("/else/a.partial", "/else/a", 3, "", 1),), base)[0].final
'/else/a'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dgs.workers.recovery.checkpoint import StagedFile, StagedOutput


def relative(files: Iterable[StagedOutput], base: Path | None) -> tuple[StagedOutput, ...]:
    """Return files with the paths to save. `base`: an absolute path; None changes nothing."""
    if base is None:
        return tuple(files)
    return tuple(
        replace(file, path=_below(file.path, base), final=_below(file.final, base))
        if isinstance(file, StagedFile)
        else file
        for file in files
    )


def located(files: Iterable[StagedOutput], base: Path | None) -> tuple[StagedOutput, ...]:
    """Return saved files with their current absolute paths. Law: `located(relative(files, b), b) == files`."""
    if base is None:
        return tuple(files)
    return tuple(
        replace(file, path=str(base / file.path), final=str(base / file.final))
        if isinstance(file, StagedFile)
        else file
        for file in files
    )


def _below(path: str, base: Path) -> str:
    return str(Path(path).relative_to(base)) if Path(path).is_relative_to(base) else path
