"""An archive of Spark's classes, as Java keeps them: a session that has it starts in half the time, and its first query takes less.

Without one, Java reads, checks and links some 15,000 classes at each start. `dgs doctor --prepare-spark` makes the archive, for this Java
and this PySpark. It counts only with the same class path, so Spark's home is beside it. Java itself ignores one that does not fit.

    ~/.cache/dgs/spark/KEY/classes.jsa       190 MB
    ~/.cache/dgs/spark/KEY/home              links to the installed PySpark
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from dgs.errors import DgsError
from dgs.job import private_files
from dgs.spark_bridge.session.java import find_java

ARCHIVE = "classes.jsa"
WRITES = "-XX:ArchiveClassesAtExit="
"""The option with which Java writes an archive as it ends."""


def place() -> Path:
    """Return the directory of the archive for this Java and this PySpark, which need not exist. Raises JavaMissingError."""
    import pyspark

    java, installed = find_java().resolve(), Path(pyspark.__file__).parent
    release = java.parent.parent / "release"
    facts = [
        str(java),
        release.read_text(encoding="utf-8") if release.is_file() else str(java.stat().st_mtime_ns),
        str(installed),
        pyspark.__version__,
        str((installed / "jars").stat().st_mtime_ns),
    ]
    key = hashlib.blake2b("\n".join(facts).encode(), digest_size=12).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dgs" / "spark" / key


def prepared() -> Path | None:
    """Return the directory of the archive, if this user has made it; None also without Java or a home."""
    try:
        directory = place()
        private_files.refuse_foreign(directory)
        return directory if directory.stat().st_uid == os.geteuid() else None
    except (
        OSError,
        RuntimeError,
        DgsError,
    ):  # Spark starts without an archive, or says itself why it does not
        return None


def remove_stale() -> None:
    """Remove the archives of this user whose PySpark is no longer installed."""
    for home in place().parent.glob("*/home"):
        jars = home / "jars"
        if jars.is_symlink() and not jars.exists() and home.parent.stat().st_uid == os.geteuid():
            shutil.rmtree(home.parent, ignore_errors=True)


def option() -> str:
    """Return the option that gives Java the archive, empty without one."""
    directory = prepared()
    has_one = directory is not None and (directory / ARCHIVE).is_file()
    return f'"-XX:SharedArchiveFile={directory}/{ARCHIVE}"' if has_one else ""
