"""`python -m experiments.crash.campaign`: attack runs until the time is over, and compare the outputs of each with those of the sequential program.

An attack kills a host, the driver, or all processes of a run, also in the middle of a commit, or while the run stops or moves to another
plan; or it sends a signal to stop. A run whose driver has ended resumes under another plan, runtime or dealing. Every run adds a line to a
file, so a campaign can have several parts; the table at the end has all lines. `--seed` chooses the moments. `--minutes 0` only makes the
table.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Lines

from experiments.crash.jobs import expected, ledger
from experiments.crash.killing import HOSTS, times_told
from experiments.crash.prey import ATTACKS, EVERY, STOPS, Judged, Prey

SECRET = "DGS_CRASH_SECRET"  # noqa: S105 - the name of the variable


def judged(place: Path, seed: int, *, attacks: int, events: int) -> Judged:
    """Attack one run and compare its outputs."""
    dice = random.Random(seed)
    value = os.environ[SECRET] = secrets.token_hex(16)
    every = f"{EVERY * 1000:g}ms"
    plan = ledger(place / "input", events=events, every=every, hosts=HOSTS, note=f"${{env:{SECRET}}}")
    found = Judged(seed)
    prey = Prey(place, plan, dice, found)
    for kind in dice.choices(list(ATTACKS), list(ATTACKS.values()), k=attacks):
        prey.wait_for_a_moment(kind)
        if prey.is_running:
            prey.attack(kind)
        if not prey.goes_on():
            break
    prey.end()
    prey.compare(expected(plan))
    found.leaked = sum(value.encode() in file.read_bytes() for file in place.rglob("*") if file.is_file())
    return found


def table(runs: Iterable[Judged]) -> Lines:
    """Return all runs as a table."""
    whole = Judged(0)
    count = 0
    for run in runs:
        count += 1
        for name in ("attacks", "ways", "lost", "repeated", "leaked", "wrong", "stops", "apart", "recovered"):
            setattr(whole, name, getattr(whole, name) + type(getattr(whole, name))(getattr(run, name)))
    lines = Lines(title=f"{count} runs", title_justify="left", show_header=False)
    for kind, number in sorted(whole.attacks.items()):
        lines.add_row(f"attacks: {kind}", str(number))
    for way, number in sorted(whole.ways.items()):
        lines.add_row(f"resumes: {way}", str(number))
    for name in ("lost", "repeated", "leaked"):
        lines.add_row(name, str(getattr(whole, name)))
    lines.add_row(
        "other faults", ", ".join(f"{n} x {what}" for what, n in Counter(whole.wrong).items()) or "0"
    )
    for what, times in (
        ("from a signal to the end", whole.stops),
        ("from the kill of a host to the next commit", whole.recovered),
        (f"between commits, every {EVERY:g} s", whole.apart),
    ):
        lines.add_row(what, times_told(times))
    return lines


def main(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="No run begins after so many minutes.")] = 8.0,
    attacks: Annotated[int, typer.Option("--attacks", help="Attacks on one run, at most.")] = 20,
    events: Annotated[int, typer.Option("--events", help="Values in each of four streams.")] = 8_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first run.")] = 1,
    file: Annotated[Path, typer.Option("--json", help="Gets a line for each run.")] = Path("campaign.jsonl"),
) -> None:
    """Attack run after run; exit with 1 if one of them was wrong."""
    # under `nohup` or in the background of a script some signals are ignored, and runs would inherit that
    for name in STOPS:
        signal.signal(signal.Signals[name], signal.SIG_DFL)
    deadline = time.monotonic() + 60 * minutes
    while time.monotonic() < deadline:
        place = Path(tempfile.mkdtemp(prefix="campaign-"))
        found = judged(place, seed, attacks=attacks, events=events)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(vars(found)) + "\n")
        if not _is_wrong(found):  # a wrong run's directory is kept for inspection
            shutil.rmtree(place)
        seed += 1
    runs = [Judged(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    Console().print(table(runs))
    if any(map(_is_wrong, runs)):
        raise typer.Exit(1)


def _is_wrong(run: Judged) -> bool:
    return bool(run.lost or run.repeated or run.leaked or run.wrong)


if __name__ == "__main__":
    typer.run(main)
