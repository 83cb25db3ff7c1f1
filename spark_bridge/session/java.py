"""Finding the Java that Spark runs on: at JAVA_HOME, else on the PATH; 17 or newer.

>>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_402"'), major("no version here")
(17, 8, None)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from dgs.errors import JavaMissingError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""


def find_java() -> Path:
    """Return the `java` that Spark will run. Raises JavaMissingError with the place searched and what was found there."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java, where = Path(home) / "bin" / "java", f"JAVA_HOME is {home}"
        if not java.is_file():
            raise JavaMissingError(problem=f"{where}, and there is no bin/java")
    else:
        found = shutil.which("java")
        if found is None:
            raise JavaMissingError(problem="JAVA_HOME is not set, and there is no `java` on the PATH")
        java, where = Path(found), f"`java` on the PATH is {found}"
    said = _version(java)
    version = major(said)
    if version is None or version < OLDEST:
        raise JavaMissingError(problem=f"{where}, which says {repr(said) if said else 'nothing'}")
    return java


def describe_java() -> str:
    """Return the path and the version line of the `java` that Spark will run. Raises JavaMissingError."""
    java = find_java()
    return f"{java}, {_version(java)}"


def major(text: str) -> int | None:
    """Return the major version in the output of `java -version` or in a file `release` (1.8 is 8); None if there is none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(match[1]) if match else None


def _version(java: Path) -> str:
    """Return the version line: from the file beside the binaries, which costs nothing, else from Java itself."""
    release = java.resolve().parent.parent / "release"
    try:
        for line in release.read_text(encoding="utf-8").splitlines():
            if line.startswith("JAVA_VERSION="):
                return f"version {line.partition('=')[2]}"
    except (OSError, UnicodeDecodeError):
        pass
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - found above
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return next(iter((done.stderr or done.stdout).strip().splitlines()), "")
