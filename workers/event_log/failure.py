"""The error that ended a stream of a log: its writer leaves it behind for the readers.

Writer and readers are different processes, perhaps on different machines; they share only the log. A reader raises the error
after all rows before it. The writer removes it when it begins again.

>>> import tempfile
>>> from dgs.errors import MissingPackageError
>>> directory = Path(tempfile.mkdtemp()) / "clicks"
>>> leave(directory, MissingPackageError(feature="Spark", package="pyspark"))
>>> found(directory)
MissingPackageError({'feature': 'Spark', 'package': 'pyspark'})
>>> forget(directory)
>>> found(directory) is None
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dgs.errors
from dgs.errors import CorruptFileError, DgsError, RunError
from dgs.job import private_files
from dgs.workers.storage import sealed_file
from dgs.workers.storage.disk import replace_with

FAILURE = "failure.dgs"


def leave(directory: Path, error: DgsError) -> None:
    """Leave an error in the directory of a stream. Raises OutputUnwritableError."""
    facts = {
        name: value if isinstance(value, int | float | str) else str(value)
        for name, value in error.facts.items()
    }
    replace_with(
        directory / FAILURE, sealed_file.pack(sealed_file.EVENTS, FAILURE, [type(error).__name__, facts])
    )


@contextmanager
def saving(directory: Path | None) -> Iterator[None]:
    """Leave a DgsError raised inside this context in a directory, and raise it again: a caller in another language gets only its text."""
    try:
        yield
    except DgsError as error:
        if directory is not None:
            leave(directory, error)
        raise


def found(directory: Path) -> DgsError | None:
    """Return the error in the directory of a stream, if there is one. Raises CorruptFileError."""
    path = directory / FAILURE
    try:
        header, _ = sealed_file.unpack(sealed_file.EVENTS, path, private_files.read_bytes(path))
        name, facts = header
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, TypeError, ValueError) as error:
        raise CorruptFileError(path=path, problem=str(error)) from error
    kind = getattr(dgs.errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, DgsError)):
        kind = RunError
        facts = {"message": f"{name}: {facts}"}
    return kind(**facts)


def forget(directory: Path) -> None:
    """Remove the error, if there is one."""
    (directory / FAILURE).unlink(missing_ok=True)
