"""dgs as a user installs it: a wheel, in an environment where dgs comes only from the wheel.

The environment finds Ray, NumPy and the others where the tests find them, but not the checkout: neither its folder nor an
editable install is on its path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
SOURCES = ("dgs", "planner", "workers", "spark_bridge", "pyproject.toml", "README.md", "LICENSE")
"""The files that a build reads. They are copied first, because setuptools builds inside of the folder it is given."""

SETTINGS = ("PYTHON", "DGS_", "RAY_", "SPARK_", "VIRTUAL_ENV", "MYPY")
"""Prefixes of variables that a user's shell does not have: of the tests, and of their Ray and Spark."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, by its folder."""

    path: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The directory of installed packages."""
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.path), "platbase": str(self.path)}))

    def run(self, *command: str | Path, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment (`python`, `dgs`) with its arguments; return how it ended."""
        program, *arguments = map(str, command)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        return subprocess.run(
            [self.path / "bin" / program, *arguments],
            cwd=cwd,
            env=kept,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def copied_sources(folder: Path) -> Path:
    """Copy the files that a build reads, links as links."""
    folder.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def pip(*arguments: str | Path, python: Path | None = None) -> None:
    """Run pip without network and without build isolation."""
    place: Sequence[str | Path] = () if python is None else ("--python", python)
    command = [sys.executable, "-m", "pip", *place, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def built_wheel(sources: Path, folder: Path) -> Path:
    """Build a wheel."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, sources)
    (wheel,) = folder.glob("*.whl")
    return wheel


def built_sdist(sources: Path, folder: Path) -> Path:
    """Build a source distribution; return it unpacked."""
    script = f"from setuptools.build_meta import build_sdist; print(build_sdist({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=sources, capture_output=True, text=True, check=True
    )
    archive = folder / done.stdout.splitlines()[-1]
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def names_in(wheel: Path) -> list[str]:
    """Return the names of the files of a wheel."""
    with ZipFile(wheel) as opened:
        return sorted(opened.namelist())


def new_environment(folder: Path, source: Path) -> Environment:
    """Make an environment and install dgs into it: from a wheel, or from a folder of sources."""
    venv.create(folder, symlinks=True)
    made = Environment(folder)
    others = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (made.packages / "other_packages.pth").write_text("".join(f"{path}\n" for path in others))
    pip(
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--ignore-installed",
        source,
        python=made.python,
    )
    return made
