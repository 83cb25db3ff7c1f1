"""The executors of a cluster: whether any comes, and whether their Python can run our code. If they lack our package, it is sent.

Work of Spark without Python (reading, sorting and writing logs) needs executors only. `format("dgs")` and `runtime: {kind: spark}` run
Python in tasks. That Python must have the packages in `NEEDED`, and the minor version of this one.
"""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dgs
from dgs.errors import ResourceError
from dgs.spark_bridge.session.java_errors import first_line
from dgs.workers.storage.disk import make_directory

NEEDED = ("numpy", "pandas", "pyarrow", "pydantic")
"""The packages that our code imports in tasks."""

COME_WITHIN = 60.0
"""Seconds that the first job has to get an executor."""


class NoExecutorError(ResourceError):
    """A Spark cluster runs no job: no executor has come, or none can reach the driver."""

    code = "DGS542"
    template = "no executor of {master} has run a first job within {seconds:g} s; the driver is at {driver}"
    fix = (
        "See in the cluster's own pages that it has free cores and memory, and that its executors reach that address: "
        "`spark: {{conf: {{spark.driver.host: ...}}}}` names another"
    )


class ExecutorPythonError(ResourceError):
    """The Python of a cluster's executors cannot run our code."""

    code = "DGS543"
    template = "the executors of Spark cannot run the Python code of dgs: {problem}"
    fix = (
        "Install the packages there, or name another Python of theirs with PYSPARK_PYTHON or "
        "`spark: {{conf: {{spark.pyspark.python: ...}}}}`"
    )


def await_executor(spark: Any, *, within: float = COME_WITHIN) -> None:
    """Run a first job, without Python. Raises NoExecutorError if it does not end in time; errors of Spark."""
    context, failed = spark.sparkContext, []

    def run() -> None:
        try:
            spark.range(0, 1, 1, 1).count()
        except Exception as error:  # noqa: BLE001 - the caller raises it
            failed.append(error)

    first = threading.Thread(target=run, name="spark-first-job", daemon=True)
    first.start()
    first.join(within)
    if first.is_alive():
        context.cancelAllJobs()
        driver = f"{context.getConf().get('spark.driver.host')}:{context.getConf().get('spark.driver.port')}"
        raise NoExecutorError(master=context.master, seconds=within, driver=driver)
    if failed:
        raise failed[0]


def python_problem(spark: Any, work_dir: Path) -> str | None:
    """Return why the executors cannot run our Python code, after sending our package if they lack it; None if they can."""
    found = _looked(spark)
    if isinstance(found, str):
        return found
    if found["missing"]:
        return f"their Python {found['python']} has no {', '.join(found['missing'])}"
    if found["dgs"] == version("dgs"):
        return None
    send(spark, packed(work_dir / "dgs.zip"))
    again = _looked(spark)
    if isinstance(again, str):
        return again
    return None if again["dgs"] else "dgs, which was sent to them, cannot be imported there"


def send(spark: Any, package: Path) -> None:
    """Send our package to the executors, for all later tasks of this session."""
    if getattr(spark, "_jsparkSession", None) is None:  # of Spark Connect
        spark.addArtifacts(str(package), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(package))


def packed(place: Path) -> Path:
    """Write our package as an archive that Python imports from; return its place. Raises OutputUnwritableError."""
    root = Path(dgs.__file__).parent
    make_directory(place.parent)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, _, names in os.walk(root, followlinks=True):  # parts of a checkout are links
            for name in names:
                if "__pycache__" not in folder:
                    path = Path(folder) / name
                    archive.write(path, path.relative_to(root.parent))
    return place


def _looked(spark: Any) -> dict[str, Any] | str:
    """Return the version of an executor's Python, that of our package there, and what is missing; or why that Python does not run."""
    try:
        [row] = (
            spark.range(0, 1, 1, 1)
            .mapInArrow(_looking(), "python string, dgs string, missing array<string>")
            .collect()
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, tasks would end with it
        return first_line(error)
    return {"python": row["python"], "dgs": row["dgs"], "missing": row["missing"]}


def _looking() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for a task. It is sent as code, since an executor may lack this module."""
    needed = NEEDED

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import sys
        from importlib import import_module
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        def has(name: str) -> bool:
            try:
                import_module(name)
            except ImportError:
                return False
            return True

        try:
            known = version("dgs") if has("dgs") else None
        except PackageNotFoundError:  # a package that we sent has no metadata
            known = "sent"
        for _ in batches:
            yield pa.RecordBatch.from_pylist(
                [
                    {
                        "python": ".".join(map(str, sys.version_info[:3])),
                        "dgs": known,
                        "missing": [name for name in needed if not has(name)],
                    }
                ],
                pa.schema({"python": pa.string(), "dgs": pa.string(), "missing": pa.list_(pa.string())}),
            )

    return look
