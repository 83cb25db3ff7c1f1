"""An archive of Spark's classes in Java's format: with it, a session starts in half the time, and its first query is faster.

Without one, Java reads, checks and links some 15,000 classes at each start. `dgs doctor --prepare-spark` makes the archive, for this Java
and this PySpark. The archive is valid only with the same class path, so Spark's home is beside it. Java itself ignores an archive that does not fit.

    ~/.cache/dgs/spark/KEY/classes.jsa       190 MB
    ~/.cache/dgs/spark/KEY/home              links to the installed PySpark, and copies of three jars without files that cost time
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from zipfile import ZipFile

from dgs.errors import DgsError
from dgs.job import private_files
from dgs.spark_bridge.session.java import find_java

ARCHIVE = "classes.jsa"
WRITES = "-XX:ArchiveClassesAtExit="
"""The option with which Java writes an archive as it ends."""

JARS = "jars"

LEFT_OUT = {
    "spark-mllib_": "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider",
    "janino-": "META-INF/DUMMY.",
    "commons-compiler-": "META-INF/DUMMY.",
}
"""Jars, and the files that our copies of them leave out, by the beginnings of their names. The first file makes every session start
Scala's reflection, for two functions of PySpark's ML. The others sign the compiler of queries, and an archive takes no signed classes."""


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
    """Return the directory of the archive, None if this user has not made it, or without Java or a home."""
    try:
        directory = place()
        private_files.refuse_foreign(directory)
        return directory if directory.stat().st_uid == os.geteuid() else None
    except (
        OSError,
        RuntimeError,
        DgsError,
    ):  # Spark starts without an archive, or says itself why it cannot start
        return None


def remove_stale() -> None:
    """Remove the archives of this user whose PySpark is no longer installed."""
    for home in place().parent.glob("*/home"):
        is_stale = any(link.is_symlink() and not link.exists() for link in (home / JARS, home / "bin"))
        if is_stale and home.parent.stat().st_uid == os.geteuid():
            shutil.rmtree(home.parent, ignore_errors=True)


def make_jars(home: Path, installed: Path) -> None:
    """Make the folder of jars in a home, unless it exists: links to the installed jars, and copies of those in LEFT_OUT."""
    jars = home / JARS
    if jars.is_dir() and not jars.is_symlink():
        return
    private_files.make_directory(home)
    with tempfile.TemporaryDirectory(dir=home) as name:
        draft = Path(name, JARS)
        draft.mkdir()
        for jar in installed.iterdir():
            unwanted = [files for start, files in LEFT_OUT.items() if jar.name.startswith(start)]
            if unwanted:
                _copy_without(unwanted[0], jar, draft / jar.name)
            else:
                (draft / jar.name).symlink_to(jar)
        jars.unlink(missing_ok=True)  # an earlier version made one link to all jars
        draft.rename(jars)


def _copy_without(unwanted: str, jar: Path, copy: Path) -> None:
    with ZipFile(jar) as source, ZipFile(copy, "w") as target:
        for entry in source.infolist():
            if not entry.filename.startswith(unwanted):
                target.writestr(entry, source.read(entry))


def option() -> str:
    """Return the option that gives Java the archive, empty without one."""
    directory = prepared()
    has_one = directory is not None and (directory / ARCHIVE).is_file()
    return f'"-XX:SharedArchiveFile={directory}/{ARCHIVE}"' if has_one else ""
