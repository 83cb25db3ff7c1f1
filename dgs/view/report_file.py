"""The report of a run: its page as one file, and its picture. A file that is not a report of ours is not written over."""

from __future__ import annotations

from pathlib import Path

from dgs.errors import InvalidError, OutputUnwritableError
from dgs.job import private_files
from dgs.view.moments import Seen
from dgs.view.page import MARK, page
from dgs.view.picture import picture

NAME = "report.html"
"""The file in the run directory that `report: true` asks for."""

_LOOKED_AT = 4096


class ForeignFileError(InvalidError):
    """There is a file where a report is to be written, and it is none of ours."""

    code = "DGS561"
    template = "{path} is there and was not made by `dgs report`"
    fix = "Name another file, or give --force to write over it"


def write_report(seen: Seen, path: Path, *, force: bool = False) -> int:
    """Write the page of a run; return its size in bytes. Raises ForeignFileError, OutputUnwritableError."""
    return _write(path, page(seen).html, MARK, force=force)


def write_picture(seen: Seen, path: Path, *, at: float | None = None, force: bool = False) -> int:
    """Write the picture of a run, at its last moment or `at` seconds after it began; return its size in bytes. Raises ForeignFileError, OutputUnwritableError."""
    return _write(path, picture(seen, at), 'class="run"', force=force)


def _write(path: Path, text: str, mark: str, *, force: bool) -> int:
    try:
        if not force and path.exists() and not _is_ours(path, mark):
            raise ForeignFileError(path=path)
        private_files.write_whole(path, text.encode())
    except OSError as error:
        raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from None
    return len(text.encode())


def _is_ours(path: Path, mark: str) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return mark in file.read(_LOOKED_AT)
