"""Files of compiled loops: the texts, and numba's cache of their machine code beside them.

A text is written by rename under a name that is a digest of it, of this package and of the versions of what compiles it. So a file is
never out of date. Where files cannot be written, the folder is one of this process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from dgs.compiled.lowering.loop_text import LoopText
from dgs.compiled.lowering.value_types import scalars_of

HEADER = "from dgs.compiled.machine import *\nfrom dgs.compiled.machine import INFINITY, i64, u64\n\n"
WHOLE = "\n\nloop = compiled(loop, {arguments!r}, {states!r})\n"
READY = ".ready"
"""The ending of a file that says that the machine code of a loop is in the cache."""


def is_available() -> bool:
    """Whether numba is installed. It is not imported."""
    return importlib.util.find_spec("numba") is not None


def folder() -> Path:
    """Return the folder of compiled loops: `$XDG_CACHE_HOME/dgs/compiled`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dgs" / "compiled"


def machine_code(loop: LoopText) -> Callable[..., Any]:
    """Return a loop as machine code, from the cache if it was compiled before. Raises Refused if numba refuses it."""
    return load(written(loop))


def written(loop: LoopText) -> Path:
    """Return the file of a loop; write it if it is not there."""
    text = HEADER + loop.text + WHOLE.format(arguments=loop.arguments, states=scalars_of(loop.state))
    digest = hashlib.blake2b((_versions() + text).encode(), digest_size=12).hexdigest()
    return _file(folder(), f"dgs_compiled_{digest}", text)


def is_ready(path: Path) -> bool:
    """Whether the machine code of a loop is in the cache."""
    return path.with_suffix(READY).exists()


@cache
def _versions() -> str:
    """Return what else decides the machine code: the source of the checked operations, and versions."""
    operations = Path(__file__).with_name("machine.py").read_text(encoding="utf-8")
    packages = ("numba", "llvmlite", "numpy")
    return "\n".join([operations, sys.version, *(metadata.version(package) for package in packages)])


@cache
def load(path: Path) -> Callable[..., Any]:
    """Return the loop in a file as machine code. Raises Refused if numba refuses it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path.stem)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # numba looks the module up by its name
    spec.loader.exec_module(module)
    loop: Callable[..., Any] = module.loop
    path.with_suffix(READY).touch()
    return loop


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dgs-compiled-")


@cache
def _file(where: Path, name: str, text: str) -> Path:
    try:
        return _written(where, name, text)
    except OSError:
        return _written(Path(_own_folder().name), name, text)


def _written(where: Path, name: str, text: str) -> Path:
    path = where / f"{name}.py"
    if not path.exists():
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    return path
