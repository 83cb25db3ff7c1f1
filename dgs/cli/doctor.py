"""`dgs doctor`: checks whether this machine has what dgs needs: Python, packages, Ray, Java, ports, memory, a writable directory.

>>> checks = [Check("python", "ok", "3.12.1"), Check("java", "absent", "not on the PATH", "only Spark needs it")]
>>> print(as_text(checks))
ok      python  3.12.1
absent  java    not on the PATH (only Spark needs it)
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from dgs.cli.reporting import Ending, print_json, say, verb
from dgs.errors import JavaMissingError

CORE = ("numpy", "pyarrow", "msgpack", "pydantic", "typer", "rich", "ruamel.yaml")
OPTIONAL = {
    "ray": "for `--runtime ray`: pip install 'dgs[ray]'",
    "pyzmq": "for Ray processes that talk directly: pip install 'dgs[ray]'",
    "pyspark": "for Spark: pip install 'dgs[spark]'",
    "deltalake": "for sinks of Delta tables: pip install 'dgs[lake]'",
    "pyiceberg": "for sinks of Iceberg tables: pip install 'dgs[lake]'",
    "hypothesis": "for `dgs check`: pip install 'dgs[check]'",
    "llvmlite": "for `compile:` under `runtime:`: pip install 'dgs[compiled]'",
    "pandas": "for `run.to_pandas()`",
}
OLDEST_PYTHON = (3, 11)
ENOUGH_SHARED_MEMORY = 64 * 2**20


@dataclass(frozen=True)
class Check:
    """The result of one check: `ok`, `absent` (only some features need it) or `broken` (dgs does not work without it)."""

    name: str
    status: Literal["ok", "absent", "broken"]
    found: str
    advice: str = ""


# fmt: off
PrepareSpark = Annotated[bool, typer.Option("--prepare-spark",
    help="First let Java keep Spark's classes in an archive, so that Spark starts in half the time (20 s, 190 MB in ~/.cache/dgs).")]
Ray = Annotated[bool, typer.Option("--ray/--no-ray", help="Also see whether Ray starts (takes seconds).")]
# fmt: on


@verb
def doctor(ending: Ending, ray: Ray = True, prepare_spark: PrepareSpark = False) -> None:
    """Check Python, packages, Ray, Java, shared memory, ports and the working directory."""
    from dgs.spark_bridge.session.java import describe_java

    if prepare_spark:
        from dgs.spark_bridge.ingest.training import prepare

        made = prepare()
        say(f"dgs: Spark's classes are in {made}" if made else "dgs: this Java keeps no archive of classes")
    checks = list(examine(find_java=describe_java, start_ray=ray))
    broken = any(check.status == "broken" for check in checks)
    if ending.as_json:
        print_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        print(as_text(checks))
    if broken:
        raise typer.Exit(4)


def examine(*, find_java: Callable[[], str], start_ray: bool = True) -> Iterator[Check]:
    """Yield all checks. `start_ray`: also check whether Ray starts, which takes seconds.

    `find_java` returns the Java that Spark would run, or raises JavaMissingError.
    """
    fits = sys.version_info >= OLDEST_PYTHON
    yield Check(
        "python",
        "ok" if fits else "broken",
        platform.python_version(),
        "" if fits else "dgs needs 3.11 or newer",
    )
    for package in CORE:
        version = _version(package)
        yield Check(
            package,
            "ok" if version else "broken",
            version or "not installed",
            "" if version else f"pip install {package}",
        )
    for package, purpose in OPTIONAL.items():
        version = _version(package)
        yield Check(
            package, "ok" if version else "absent", version or "not installed", "" if version else purpose
        )
    if _version("llvmlite"):
        yield _compiled_loops()
    if start_ray and _version("ray"):
        yield _ray_start()
    yield _java(find_java)
    yield _shared_memory()
    yield _ports()
    yield _writable(Path.cwd())


def as_text(checks: Sequence[Check]) -> str:
    """Return the checks as a table."""
    width = max(len(check.name) for check in checks)
    return "\n".join(
        f"{check.status:<7} {check.name:<{width}}  {check.found}{f' ({check.advice})' if check.advice else ''}"
        for check in checks
    )


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _compiled_loops() -> Check:
    from dgs.compiled.loop_files import CODE, folder

    place = folder()
    if place.exists() and not os.access(place, os.W_OK):
        return Check(
            "compiled loops", "absent", f"{place} cannot be written", "each process compiles its own again"
        )
    sizes = [path.stat().st_size for path in place.glob(f"*{CODE}")]
    return Check("compiled loops", "ok", f"{len(sizes)} in {place}, {sum(sizes) / 2**20:.1f} MiB")


def _ray_start() -> Check:
    """Start Ray in a separate process, so that everything it starts ends with that process."""
    script = "from dgs.workers.ray_runtime.cluster import cluster\nwith cluster('local', 1): print('started')"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return Check("ray start", "broken", "does not start within 60 s", "use --runtime local")
    if done.returncode == 0:
        return Check("ray start", "ok", "starts and stops")
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return Check("ray start", "broken", f"does not start: {last}", "use --runtime local")


def _java(find_java: Callable[[], str]) -> Check:
    try:
        return Check("java", "ok", find_java())
    except JavaMissingError as error:
        return Check("java", "absent", error.problem, "Spark needs Java 17 or newer")


def _shared_memory() -> Check:
    place = Path("/dev/shm")  # noqa: S108 - not a file of ours
    if not place.is_dir():
        return Check("shared memory", "absent", "no /dev/shm", "Ray is slower without")
    free = shutil.disk_usage(place).free
    enough = free >= ENOUGH_SHARED_MEMORY
    found = f"{free / 2**20:,.0f} MiB free in /dev/shm"
    return Check("shared memory", "ok" if enough else "absent", found, "" if enough else "Ray needs more")


def _ports() -> Check:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        return Check("ports", "broken", f"cannot listen on 127.0.0.1: {error.strerror}")
    return Check("ports", "ok", "127.0.0.1 can be listened on")


def _writable(directory: Path) -> Check:
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        problem = f"{directory}: {error.strerror}"
        return Check(
            "directory", "broken", problem, "runs are written beside plan.yaml: see `dgs run --run-dir`"
        )
    return Check("directory", "ok", f"{os.fspath(directory)} is writable")
