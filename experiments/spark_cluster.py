"""`python -m experiments.spark_cluster`: the flights on a standalone Spark cluster. Its worker shares no loopback with the driver.

The worker is in a network namespace of this machine, runs as the user `nobody`, and has a Python without dgs. Needs root. The group
of the directory is nobody's, and the plan file says `umask: "007"`, so driver and executors share the event log. Prints whether the outputs
equal those of the sequential program.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
import yaml

from experiments.network_namespaces import Namespace, ip

DRIVER, WORKER, PORT = "10.214.7.1", "10.214.7.2", 17077
SPACE = Namespace("dgs-spark", "dgs-spark0", "dgs-spark1", here=DRIVER, there=WORKER)
NOBODY = 65534
FLIGHTS = Path(__file__).parent / "flights"
LONGEST_START = 60.0


def unavailable() -> str | None:
    """Return why there can be no such cluster here; None if there can."""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        return "Spark or Java is not installed"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    missing = next((name for name in ("ip", "setpriv") if shutil.which(name) is None), None)
    if missing is not None:
        return f"there is no command `{missing}`"
    tried = subprocess.run(["ip", "netns", "add", SPACE.name], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if tried.returncode:
        return f"no network namespace can be made: {tried.stderr.strip()}"
    ip("netns", "delete", SPACE.name)
    return None


@contextmanager
def cluster(place: Path, *, user: int = NOBODY, beside: bool = False) -> Iterator[str]:
    """Start a master here, and a worker of two cores in the namespace as a `user`; give the address of the master.

    `beside`: start a worker outside the namespace, too: Spark repeats a slow task only on another host.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    work = place / "work"
    work.mkdir()
    os.chown(work, user, user)
    settings = {
        "SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(work), "SPARK_LOCAL_DIRS": str(work), "HOME": str(work),
        "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m", "PATH": os.environ["PATH"],
    }  # fmt: skip
    settings |= {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
    address = f"spark://{DRIVER}:{PORT}"
    start = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    web = ["--webui-port", "0"]
    worker = [
        "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", start[0], f"{start[1]}.worker.Worker",
        address, "--cores", "2", "--memory", "2g", *web,
    ]  # fmt: skip
    commands = {
        "master": [start[0], f"{start[1]}.master.Master", "--host", DRIVER, "--port", str(PORT), *web],
        "worker": ["ip", "netns", "exec", SPACE.name, *worker, "--host", WORKER],
        **({"beside": [*worker, "--host", DRIVER]} if beside else {}),
    }
    with ExitStack() as stack:
        for name, command in commands.items():
            log = stack.enter_context((place / f"{name}.log").open("wb"))
            process = subprocess.Popen(  # noqa: S603
                command, env=settings, stdout=log, stderr=log, start_new_session=True, cwd="/", umask=0o002
            )
            stack.callback(_end, process)
        for name in commands.keys() - {"master"}:
            _wait_for(place / f"{name}.log", "Successfully registered with master")
        yield address


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _wait_for(log: Path, text: str) -> None:
    patience = time.monotonic() + LONGEST_START
    while text not in log.read_text(errors="replace"):
        if time.monotonic() > patience:
            raise SystemExit(f"the cluster does not start; see {log}")
        time.sleep(0.1)


def plan_of(place: Path, address: str, *, runtime: str, python: str) -> Path:
    """Write the plan file of the flights through Spark, with that cluster and outputs in `place`; return it."""
    plan = yaml.safe_load((FLIGHTS / "plan_spark.yaml").read_text())
    plan["program"]["ref"] = f"{FLIGHTS / 'program.py'}:FlightsJoin"
    for stream in plan["streams"]:
        source = stream["source"]["spark"]
        source["path"] = str((FLIGHTS / source["path"]).resolve())
    packages = [path for path in sys.path if path.endswith("site-packages")]
    conf = {
        "spark.executor.memory": "1g",
        "spark.pyspark.python": python,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(packages),
    }
    plan |= {"umask": "007", "runtime": {"kind": runtime}, "spark": {"master": address, "conf": conf}}
    outputs = place / f"outputs-{runtime}"
    outputs.mkdir()
    outputs.chmod(0o2775)  # the tasks of the batch runtime write there
    plan["sinks"] = [{"spark": {"path": str(outputs)}}]
    file = place / f"{runtime}.yaml"
    file.write_text(yaml.safe_dump(plan))
    return file


@contextmanager
def shared_place() -> Iterator[Path]:
    """Make a directory that belongs to nobody's group, as all directories in it will."""
    with tempfile.TemporaryDirectory(prefix="spark-cluster-") as name:
        place = Path(name)
        os.chown(place, 0, NOBODY)
        place.chmod(0o2775)
        yield place


def main(
    python: Annotated[
        str, typer.Option(help="The Python of the executors: of this minor version, for every user to run.")
    ] = "/usr/bin/python3",
) -> None:
    """Run the flights, and again with their workers as tasks of Spark; compare both with the sequential program. Print a line for each."""
    import dgs

    if (problem := unavailable()) is not None:
        raise SystemExit(f"not run: {problem}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up
    with shared_place() as place, SPACE.made(), cluster(place) as address:
        for runtime in ("local", "spark"):
            began = time.perf_counter()
            run = dgs.run(plan_of(place, address, runtime=runtime, python=python), verify=True, fresh=True)
            seconds = round(time.perf_counter() - began, 1)
            told = {
                "runtime": runtime,
                "outputs": run.report["outputs"],
                "verified": run.verified,
                "seconds": seconds,
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    typer.run(main)
