"""Tracebacks as users need them: their own frames, without those of dgs and of the import machinery.

>>> try: int("x")
... except ValueError as error: print(user_trace(error))      # doctest: +ELLIPSIS
Traceback (most recent call last):
...
ValueError: invalid literal for int() with base 10: 'x'
"""

from __future__ import annotations

import traceback
from pathlib import Path

_OWN = str(Path(__file__).parent)
_LAYERS = tuple(str(Path(__file__).parent.parent / name) for name in ("planner", "workers", "spark_bridge"))
_IMPORT_MACHINERY = ("<frozen importlib", "importlib/")


def user_trace(error: BaseException) -> str:
    """Return the traceback of an error from the user's code, with only the frames that are the user's."""
    shown = traceback.TracebackException.from_exception(error)
    _strip(shown)
    return "".join(shown.format()).rstrip()


def user_frame(error: BaseException) -> str | None:
    """Return file:line of the innermost frame of the user's code, None if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _strip(shown: traceback.TracebackException) -> None:
    kept = [frame for frame in shown.stack if not _is_ours(frame.filename)]
    shown.stack = traceback.StackSummary.from_list(kept)
    for below in (shown.__cause__, shown.__context__):
        if below is not None:
            _strip(below)


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OWN, *_LAYERS)) or any(part in filename for part in _IMPORT_MACHINERY)
