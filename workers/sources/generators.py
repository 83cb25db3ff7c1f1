"""Generator sources: a Python callable, "file.py:name" relative to the plan file or "package.module:name".

>>> count = load("itertools:count", base_dir=Path())
>>> next(generated(count, {"start": 3}, ref="itertools:count", stream="numbers", program="Sum"))
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dgs.errors import DgsError, ProgramImportError, UserCodeError
from dgs.loading import load_callable
from dgs.user_code import user_trace

Generate = Callable[..., Any]


def load(ref: str, *, base_dir: Path) -> Generate:
    """Return the callable that `ref` names. Raises ProgramImportError if there is none."""
    found = load_callable(ref, base_dir)
    if not callable(found):
        raise ProgramImportError(ref=ref, problem=f"it is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def generated(
    function: Generate, arguments: Mapping[str, Any], *, ref: str, stream: str, program: str
) -> Iterator[Any]:
    """Yield what the function yields. What it raises becomes a UserCodeError with the user's traceback first."""
    items = 0
    try:
        for item in function(**arguments):
            yield item
            items += 1
    except DgsError:
        raise
    except Exception as error:
        raise UserCodeError(
            trace=user_trace(error),
            function=ref,
            program=program,
            error=f"{type(error).__name__}: {error}",
            where=f" for stream {stream!r}, after {items} items",
        ) from error
