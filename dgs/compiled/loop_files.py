"""Files of compiled loops: their texts for LLVM, and their machine code beside them.

`MadeLoops` makes the loops of a worker, and counts them. Each file is written by rename. Its name is a digest of the loop, of how it is
compiled, and of the processor, so no file is ever out of date. If files cannot be written, this process uses a folder of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.compiled.called_loops import CalledLoop
from dgs.compiled.llvm.llvm_text import ENTRY, llvm_text
from dgs.compiled.lowering.loop_text import LoopText
from dgs.compiled.lowering.value_types import Refused, scalars_of
from dgs.own_folders import OwnFolder

if TYPE_CHECKING:
    from dgs.compiled.merged_run import Loop

TEXT, CODE = ".ll", ".o"
"""The endings of texts for LLVM, and of machine code, which follows its digest."""
PREFIX = "dgs-compiled-"
"""The beginning of the names of folders of one process."""
AGAIN = 0.005
"""The seconds after which it is looked again whether a loop is compiled. Each stretch of events asks for its loop."""
DIGEST = 16
"""The bytes of a digest of machine code."""


def is_available() -> bool:
    """Whether llvmlite is installed. It is not imported."""
    return importlib.util.find_spec("llvmlite") is not None


def folder() -> Path:
    """Return the folder of compiled loops: `$XDG_CACHE_HOME/dgs/compiled`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dgs" / "compiled"


def machine_code(loop: LoopText) -> CalledLoop:
    """Return a loop as machine code, from the cache if it was compiled before. Raises Refused if LLVM refuses it."""
    path = written(loop)
    compile_file(path)
    return load(loop, path)


def written(loop: LoopText) -> Path:
    """Return the file of the text of a loop; write it if it does not exist. Raises Refused if the text cannot be translated."""
    scalars = scalars_of(loop.state)
    name = _name(loop.text, loop.arguments, scalars)

    def text() -> bytes:
        # the function has the name of its file, since all functions of a process share one namespace
        return llvm_text(loop.text, loop.arguments, scalars).replace(ENTRY, f"@{name}(").encode()

    return _file(folder(), name, text)


def is_ready(path: Path) -> bool:
    """Whether the machine code of a text is in the cache."""
    return path.with_suffix(CODE).exists()


def compile_file(path: Path) -> None:
    """Compile a text for LLVM if necessary. Only one process of this machine does it. Raises Refused if LLVM refuses it."""
    if is_ready(path):
        return
    from dgs.compiled.machine import compiled

    with _alone(path):
        if not is_ready(path):
            path.touch()  # the time when compiling begins, for `seconds_of`
            code = compiled(path.read_text(encoding="utf-8"))
            try:
                _put(path.with_suffix(CODE), _digest(code) + code)
            except OSError as error:
                raise Refused(f"its machine code cannot be written: {error}") from error


def seconds_of(path: Path) -> float:
    """Return how long compiling a text took, which must be ready."""
    return max(path.with_suffix(CODE).stat().st_mtime - path.stat().st_mtime, 0.0)


def load(loop: LoopText, path: Path) -> CalledLoop:
    """Return a loop whose machine code is in the cache."""
    return CalledLoop(_function(path), loop.arguments, scalars_of(loop.state))


@cache
def _function(path: Path) -> Callable[[Any], None]:
    from dgs.compiled.machine import function

    found = path.with_suffix(CODE).read_bytes()
    if found[:DIGEST] != _digest(found[DIGEST:]):  # the machine crashed before the file was on disk
        path.with_suffix(CODE).unlink(missing_ok=True)
        compile_file(path)
        found = path.with_suffix(CODE).read_bytes()
    return function(found[DIGEST:], path.stem)


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=DIGEST).digest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def _name(text: str, arguments: tuple[str, ...], scalars: tuple[str, ...]) -> str:
    """Return the name of a loop's file: a digest of what it is made of. Its text for LLVM takes longer to make, and only once."""
    made_of = repr((_conditions(), text, arguments, scalars))
    return f"dgs_compiled_{hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()}"


@cache
def _conditions() -> str:
    """Return everything else that texts for LLVM and machine code depend on: the modules that make them, and the processor."""
    from dgs.compiled.machine import processor

    here = files(__package__)  # perhaps in an archive
    sources = [here / "machine.py", *(one for one in (here / "llvm").iterdir() if one.name.endswith(".py"))]
    texts = (one.read_text(encoding="utf-8") for one in sorted(sources, key=lambda one: one.name))
    return "\n".join([*texts, processor()])


def get_ready() -> None:
    """Import what loads machine code, and prepare it, which takes some milliseconds."""
    from dgs.compiled.machine import engine

    _conditions()
    with suppress(Refused):  # the first loop will say it
        engine()


@cache
def _own_folder() -> OwnFolder:
    """Return a folder of this process, for loops that the common folder cannot take."""
    return OwnFolder(PREFIX)


def _file(where: Path, name: str, text: Callable[[], bytes]) -> Path:
    why: OSError | str = "no folder lets it"
    for is_own in (False, True):
        place = _own_folder().path if is_own else where
        path = (place / name).with_suffix(TEXT)
        try:
            if not path.exists():
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                _put(path, text())
        except OSError as error:
            why = error
            continue
        if is_ready(path) or os.access(place, os.W_OK):
            return path
    raise Refused(f"its machine code cannot be written: {why}")


def _put(path: Path, data: bytes) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


class MadeLoops:
    """Makes loops of texts. `compiled`: how many were compiled for this worker. `cached`: how many were in the cache. `seconds`: of compiling."""

    def __init__(self, translate: Callable[[LoopText], Loop | None]) -> None:
        self._translate = translate
        self._awaited: dict[str, float] = {}  # texts of loops, with the time when to look for them again
        self.compiled = self.cached = 0
        self.seconds = 0.0

    def __call__(self, text: LoopText) -> Loop | None:
        """Return a loop as machine code, None if it is not ready yet. Raises Refused."""
        if time.monotonic() < self._awaited.get(text.text, 0.0):
            return None
        path = written(text)
        was_there = is_ready(path) and text.text not in self._awaited
        loop = self._translate(text)
        if loop is None:
            self._awaited[text.text] = time.monotonic() + AGAIN
        elif was_there:
            self.cached += 1
        else:
            self.compiled += 1
            self.seconds += seconds_of(path)
        return loop
