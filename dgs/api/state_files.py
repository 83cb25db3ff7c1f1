"""The final state of a run in a file (`--save-state`): JSON if the name ends with `.json`, else the bytes of the codec.

Law: `read_state(path)` equals the saved state, with the same types. JSON can hold plain data only: None, booleans, numbers, texts, lists
and dictionaries with text keys. The codec can hold any state, and this module (or `dgs.codec`) reads it.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> save_state(folder / "state.json", {"windows": [1, 2]})
>>> save_state(folder / "state.dgs", {("ann", 7): 1})
>>> read_state(folder / "state.json"), read_state(folder / "state.dgs")
({'windows': [1, 2]}, {('ann', 7): 1})
>>> save_state(folder / "state.json", {("ann", 7): 1})  # doctest: +ELLIPSIS
Traceback (most recent call last):
dgs.api.state_files.StateUnwritableError: cannot write to ...state.json: JSON cannot hold this state: a key of type tuple. Name ...
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgs import codec
from dgs.errors import CodecError, OutputUnwritableError, UsageError
from dgs.named_files import check_writable, write_named

BY = "--save-state"

PLAIN = (type(None), bool, int, str)


class StateUnwritableError(OutputUnwritableError):
    """The final state cannot be saved."""

    code = "DGS405"
    fix = "Name a file that can be written; one whose name does not end with .json holds any state"


def save_state(path: str | os.PathLike[str], state: Any) -> None:
    """Write a state into a file, also in place of what was saved there. Raises ForeignFileError, StateUnwritableError, CodecError."""
    target = Path(path)
    if target.suffix == ".json":
        for problem in _not_plain(state):
            raise StateUnwritableError(path=target, problem=f"JSON cannot hold this state: {problem}")
        data = (json.dumps(state, indent=2) + "\n").encode()
    else:
        data = codec.encode(state, keeps_order=True)
    try:
        write_named(target, data, BY)  # a link stays one, such as /dev/stdout
    except OutputUnwritableError as error:
        raise StateUnwritableError(path=error.path, problem=error.problem) from None


def check_place(path: Path) -> None:
    """Raise StateUnwritableError or ForeignFileError before a run if a state certainly cannot be saved at this path."""
    if path.is_dir():
        raise StateUnwritableError(path=path, problem="it is a directory")
    try:
        check_writable(path, BY)
    except OutputUnwritableError as error:
        raise StateUnwritableError(path=error.path, problem=error.problem) from None


def read_state(path: str | os.PathLike[str]) -> Any:
    """Return the state that `--save-state` wrote. Raises CodecError for another kind of file, UsageError for a missing one."""
    try:
        data = Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(message=f"no state can be read from {path!r}: {why}") from None
    if Path(path).suffix != ".json":
        return codec.decode(data)
    try:
        return json.loads(data)
    except ValueError as error:
        raise CodecError(problem=f"{path} holds no state: {error}") from None


def _not_plain(value: Any) -> Iterator[str]:
    """Yield the parts of a value that JSON would change."""
    if type(value) is dict:
        yield from (f"a key of type {type(key).__name__}" for key in value if type(key) is not str)
        for inner in value.values():
            yield from _not_plain(inner)
    elif type(value) is list:
        for inner in value:
            yield from _not_plain(inner)
    elif type(value) is float:
        if not math.isfinite(value):
            yield f"the number {value}"
    elif type(value) not in PLAIN:
        yield f"a value of type {type(value).__name__}"
