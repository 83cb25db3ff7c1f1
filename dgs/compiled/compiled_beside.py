"""Compiling in a process beside the run (`compile: auto`): a worker never waits for it, but interprets until the loop is ready.

Run as a program, this module compiles the loop in a file, at a low priority:

    python -m dgs.compiled.compiled_beside ~/.cache/dgs/compiled/dgs_compiled_2f61.ll
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgs
from dgs.compiled import loop_files
from dgs.compiled.lowering.loop_text import LoopText
from dgs.compiled.lowering.value_types import Refused

FAILED = ".failed"
"""The ending of a file that says why a loop was not compiled."""
LATER = 10
"""The priority of compiling: a tenth of a busy core. With the lowest one it would take minutes while workers use all cores."""
BESIDE = ("/bin/sh", "-c", '"$@" & wait $!', "sh")
"""The shell that starts a process and ends with its exit code. Ray kills the children of a host with it, but not the children of these."""
_running: dict[Path, subprocess.Popen[bytes]] = {}


def loop_or_none(loop: LoopText) -> Callable[..., Any] | None:
    """Return a loop as machine code if a process has compiled it; else start one, and return None. Raises Refused if compiling failed.

    If the run ends first, the process still ends its work, so that a later run finds the loop.
    """
    path = loop_files.written(loop)
    if loop_files.is_ready(path):
        return loop_files.load(loop, path)
    failed = path.with_suffix(FAILED)
    if failed.exists():
        raise Refused(failed.read_text(encoding="utf-8"))
    started = _running.get(path)
    if started is None:
        _running[path] = _started(path)
    elif started.poll() is not None:
        raise Refused(f"the process that compiles it has ended with exit code {started.returncode}")
    return None


def _started(path: Path) -> subprocess.Popen[bytes]:
    """Start compiling. Raises Refused if no process can be started."""
    # a program in a single executable would start itself
    if not sys.executable or getattr(sys, "frozen", False):
        raise Refused("there is no Python that could compile it beside the run")
    try:
        # with -P, a random.py of the user's is not imported
        return subprocess.Popen(  # noqa: S603 - our own module
            [*BESIDE, sys.executable, "-P", "-m", __name__, str(path)],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_places())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        raise Refused(f"the process that compiles it does not start: {error}") from error


def _places() -> list[str]:
    """Return where the process looks for modules: where dgs is, first."""
    return [str(Path(dgs.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]


def main(path: Path) -> None:
    """Compile the loop in a file. If LLVM refuses it, leave a file that says so."""
    try:
        loop_files.compile_file(path)
    except Refused as refused:
        if isinstance(refused.__cause__, OSError):  # for example a full disk, which may not last
            raise
        path.with_suffix(FAILED).write_text(refused.refusal.why, encoding="utf-8")


if __name__ == "__main__":
    os.nice(LATER)
    main(Path(sys.argv[1]))
