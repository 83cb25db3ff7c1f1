"""Generator sources: a Python callable, "file.py:name" relative to the plan file or "package.module:name".

>>> load("itertools:count", base_dir=Path())
<class 'itertools.count'>
"""

from __future__ import annotations

import importlib
import importlib.util
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dgs.errors import DgsError, ProgramImportError, UserCodeError

Generate = Callable[..., Any]


def load(ref: str, *, base_dir: Path) -> Generate:
    """Return the callable that `ref` names. Raises ProgramImportError if there is none."""
    place, _, name = ref.rpartition(":")
    if not place or not name:
        raise ProgramImportError(ref=ref, problem="it is not of the form place:name")
    try:
        module = (
            _module_of_file(base_dir / place) if place.endswith(".py") else importlib.import_module(place)
        )
        found = getattr(module, name)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ProgramImportError(ref=ref, problem=problem) from error
    if not callable(found):
        raise ProgramImportError(ref=ref, problem=f"{name} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _module_of_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generated(function: Generate, arguments: Mapping[str, Any], *, ref: str, stream: str) -> Iterator[Any]:
    """Yield what the function yields. What it raises becomes a UserCodeError with the user's traceback first."""
    row = 0
    try:
        for item in function(**arguments):
            yield item
            row += 1
    except DgsError:
        raise
    except Exception as error:
        raise UserCodeError(
            trace=traceback.format_exc().rstrip(),
            function=ref,
            program=f"source {stream!r}",
            error=f"{type(error).__name__}: {error}",
            where=f" after {row} items",
        ) from error
