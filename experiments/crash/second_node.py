"""`python -m experiments.crash.second_node`: lose a second Ray node in a network namespace of this machine. Needs root.

The node is killed, or cut off for some seconds, or for good. With `--fewer-hosts wait` the node is started again when it is no longer cut off,
as whatever supervises it does: Ray ends a node that was away for half a minute. Prints the seconds to the next commit, and the outputs that are lost or
repeated. Each of the two nodes has one CPU, so `--fewer-hosts` matters after the loss.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.crash.jobs import expected, in_table, ledger, written
from experiments.crash.killing import Victim
from experiments.network_namespaces import Namespace, ip

HEAD, NODE, PORT = "10.213.7.1", "10.213.7.2", 6397
SPACE = Namespace("dgs-node", "dgs-veth0", "dgs-veth1", here=HEAD, there=NODE)
FOR_GOOD = 10_000.0
BEFORE = 5.0
"""Seconds of commits before the loss."""

LONGEST_START, LONGEST_END = 120.0, 240.0
JOINED = "Ray runtime started"
SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_DISABLE_IMPORT_WARNING": "1", "PYTHONPATH": str(Path.cwd())}


@contextmanager
def _nodes(place: Path) -> Iterator[Callable[[], None]]:
    """Start the head here, and the second node in the namespace. Yield the function that starts the node and waits until it has joined."""
    common = ["--num-cpus=1", "--block", "--disable-usage-stats", "--object-store-memory=100000000"]
    ray = [str(Path(sys.executable).with_name("ray")), "start", *common]
    head = [*ray, "--head", f"--node-ip-address={HEAD}", f"--port={PORT}", "--include-dashboard=false"]
    node = ["ip", "netns", "exec", SPACE.name, *ray, f"--node-ip-address={NODE}", f"--address={HEAD}:{PORT}"]
    environment = {**os.environ, **SETTINGS}
    log_file = place / "ray.log"

    def start_node() -> None:
        joined = log_file.read_text().count(JOINED)
        subprocess.Popen(node, stdout=log, stderr=log, env=environment)  # noqa: S603
        while log_file.read_text().count(JOINED) == joined:
            time.sleep(0.1)

    with log_file.open("ab") as log:
        first = subprocess.Popen(head, stdout=log, stderr=log, env=environment)  # noqa: S603
        try:
            time.sleep(10.0)
            start_node()
            time.sleep(5.0)
            yield start_node
        finally:
            first.terminate()  # the processes of its node end with it
            first.wait()


def lost(
    place: Path,
    seconds: float | None,
    start_node: Callable[[], None],
    *,
    events: int,
    hosts: int,
    fewer_hosts: str,
) -> dict[str, Any]:
    """Run a job on both nodes; kill the second one (`seconds` None), or cut it off for `seconds`."""
    plan = ledger(
        place / "input",
        events=events,
        pause=0.001,
        every="500ms",
        address=f"{HEAD}:{PORT}",
        hosts=hosts,
        fewer_hosts=fewer_hosts,
    )
    victim = Victim(plan, place / "run")
    victim.watch(LONGEST_START, lambda: len(victim.commits) > 1)
    victim.watch(BEFORE)
    at = time.time()
    before = len(victim.commits)
    if seconds is None:
        SPACE.kill_all()
    else:
        ip("link", "set", SPACE.outside, "down")
        victim.watch(seconds)
        ip("link", "set", SPACE.outside, "up")
        if fewer_hosts == "wait" and victim.process.poll() is None:
            SPACE.kill_all()
            start_node()
    back = time.time()
    victim.watch(LONGEST_END)
    code = victim.process.poll()
    if code is None:
        victim.process.kill()
    wanted = expected(plan)
    both = written(place / "out"), in_table(place / "out.db")
    begun: set[int] = set()
    commits = []  # the first record of a generation marks its begin
    for index, (when, generation, _) in enumerate(victim.commits):
        if index >= before and (generation in begun or generation == victim.commits[before - 1][1]):
            commits.append(when)
        begun.add(generation)
    return {
        "loss": "killed" if seconds is None else f"cut off for {seconds:g} s",
        "hosts": f"{hosts}, {fewer_hosts}",
        "next_commit": round(commits[0] - at, 1) if commits else None,
        "after_its_return": round(next((when for when in commits if when > back), math.nan) - back, 1),
        "generations": sorted({generation for _, generation, _ in victim.commits}),
        "exit_code": code,
        "lost": sum((wanted - made).total() for made in both),
        "repeated": sum((made - wanted).total() for made in both),
        "told": [(round(one["time"] - at, 1), one["told"]) for one in victim.story() if "told" in one],
    }


def main(
    *,
    cuts: Annotated[list[float] | None, typer.Option("--cut", help="Seconds cut off. Repeatable.")] = None,
    killed: Annotated[bool, typer.Option("--killed", help="Kill the node, too.")] = False,
    for_good: Annotated[bool, typer.Option("--for-good", help="Cut it off for good, too.")] = False,
    events: Annotated[int, typer.Option("--events", help="Values in each of four streams.")] = 8_000,
    hosts: Annotated[int, typer.Option("--hosts", help="Hosts of the run.")] = 2,
    fewer_hosts: Annotated[str, typer.Option("--fewer-hosts", help="`go_on` or `wait`.")] = "go_on",
) -> None:
    """Lose the node in each of these ways, and print a line of JSON for each."""
    losses = [*([None] if killed else []), *(cuts or []), *([FOR_GOOD] if for_good else [])]
    os.environ.update(SETTINGS)
    for seconds in losses:
        place = Path(tempfile.mkdtemp(prefix="second-node-"))
        with SPACE.made(), _nodes(place) as start_node:
            found = lost(place, seconds, start_node, events=events, hosts=hosts, fewer_hosts=fewer_hosts)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    typer.run(main)
