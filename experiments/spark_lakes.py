"""`python -m experiments.spark_lakes`: the flights into tables of Delta and Iceberg, by runs that are killed and resumed.

The driver of a run, with all its workers, is killed as soon as it has committed another checkpoint. Independent readers then read the
tables: all rows must equal those of a verified run without kills, and the version of each epoch must be the prefix up to that epoch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
import yaml

import dgs
from dgs.workers.checkpoints.directory import CheckpointDirectory

FLIGHTS = Path(__file__).parent / "flights"
LOOKS_EVERY, LONGEST = 0.005, 300.0
"""Seconds between two looks at the checkpoints, and of a run."""


def plan_of(place: Path, kind: str) -> Path:
    """Write the plan file of the flights with a table of this kind in `place`, and many checkpoints; return it."""
    plan = yaml.safe_load((FLIGHTS / "plan.yaml").read_text())
    plan["program"]["ref"] = f"{FLIGHTS / 'program.py'}:FlightsJoin"
    for stream in plan["streams"]:
        generator = stream["source"]["generator"]
        generator["ref"] = str(FLIGHTS / generator["ref"])
    plan |= {"runtime": {"kind": "local"}, "checkpoint": {"every": "200ms"}}
    plan["sinks"] = [{kind: {"path": str(place / "table")}}]
    place.mkdir()
    file = place / "plan.yaml"
    file.write_text(yaml.safe_dump(plan))
    return file


def killed(plan: Path, kills: int) -> int:
    """Run a plan, kill it `kills` times, each after a further checkpoint, and let it end; return the number of kills."""
    run, done = plan.parent / "run", 0
    while True:
        before = _epoch(run)
        flags = ["resume", str(run)] if before else ["run", str(plan), "--run-dir", str(run)]
        process = subprocess.Popen([sys.executable, "-m", "dgs", *flags], stderr=subprocess.PIPE, text=True)  # noqa: S603
        patience = time.monotonic() + LONGEST
        while process.poll() is None and (done == kills or _epoch(run) <= before):
            if time.monotonic() > patience:
                process.kill()
            time.sleep(LOOKS_EVERY)
        if process.poll() is not None:
            _, told = process.communicate()
            if process.returncode:
                raise SystemExit(told)
            return done
        process.kill()
        process.communicate()
        done += 1


def _epoch(run: Path) -> int:
    found = CheckpointDirectory(run / "checkpoints").committed() if (run / "checkpoints").exists() else None
    return 0 if found is None else found.checkpoint.epoch


def versions(place: Path, kind: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield each epoch and the rows of its version, as an independent reader sees them; the last one is the whole table."""
    if kind == "delta":
        deltalake = import_module("deltalake")
        history = deltalake.DeltaTable(str(place)).history()
        for entry in sorted(history, key=lambda entry: entry["version"]):
            if epoch := int(entry.get("dgs_epoch", 0)):
                yield epoch, deltalake.DeltaTable(str(place), version=entry["version"]).to_pyarrow_table()
        return
    catalog = import_module("pyiceberg.catalog").load_catalog(
        "dgs", type="sql", uri=f"sqlite:///{place}/catalog.db"
    )
    table, as_arrow = (
        catalog.load_table("default.outputs"),
        import_module("pyiceberg.io.pyarrow").schema_to_pyarrow,
    )
    for snapshot in table.snapshots():
        if epoch := int(snapshot.summary["dgs_epoch"]):
            scan = table.scan(snapshot_id=snapshot.snapshot_id)
            # Where a file has no values of a column, `to_arrow` uses another string type for the column.
            yield epoch, scan.to_arrow().cast(as_arrow(scan.projection(), include_field_ids=False))


def differences(place: Path, kind: str, wanted: pa.Table) -> list[str]:
    """Return what is wrong with a table, given the rows that it must have."""
    found: list[str] = []
    seen = list(versions(place, kind))
    whole = _in_order(seen[-1][1])
    if not whole.drop_columns("epoch").equals(wanted.drop_columns("epoch")):
        found.append(f"{kind}: its {len(whole)} rows are not the {len(wanted)} of the sequential program")
    for epoch, rows in seen:
        then = _in_order(rows)
        if not then.equals(whole.filter(pc.field("epoch") <= epoch)):
            found.append(f"{kind}: epoch {epoch} is not the part of the table up to it")
        for stream in pc.unique(then["stream"]):  # each event has one output
            numbers = then.filter(pc.equal(then["stream"], stream))["seq"]
            if pc.max(numbers).as_py() + 1 != len(numbers):
                found.append(f"{kind}: epoch {epoch} is no prefix of stream {stream}")
    if kind == "delta" and find_spec("duckdb") is not None:
        dataset = import_module("deltalake").DeltaTable(str(place)).to_pyarrow_dataset()
        with import_module("duckdb").connect() as database:
            if database.register("found", dataset).sql("SELECT count(*) FROM found").fetchall() != [
                (len(wanted),)
            ]:
                found.append("DuckDB finds other rows")
    if (
        kind == "delta"
        and find_spec("polars") is not None
        and len(import_module("polars").read_delta(str(place))) != len(wanted)
    ):
        found.append("Polars finds other rows")
    return found


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by(
        [("stream", "ascending"), ("seq", "ascending"), ("index", "ascending")]
    ).combine_chunks()


def main(kills: Annotated[int, typer.Option(min=1, help="Kills of each run.")] = 5) -> None:
    """Kill and resume a run for each format; print a line for each. The exit code is 1 if anything differs."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for kind in ("delta", "iceberg"):
            whole, part = Path(name) / f"{kind}-whole", Path(name) / kind
            run = dgs.run(plan_of(whole, kind), verify=True, run_dir=whole / "run")
            [*_, (_, rows)] = versions(whole / "table", kind)
            done = killed(plan_of(part, kind), kills)
            found = differences(part / "table", kind, _in_order(rows))
            epochs = sum(1 for _ in versions(part / "table", kind))
            told = {
                "table": kind,
                "rows": len(rows),
                "verified": run.verified,
                "kills": done,
                "versions": epochs,
            }
            print(json.dumps({**told, "differences": found}), flush=True)
            wrong += found
    raise SystemExit(int(bool(wrong)))


if __name__ == "__main__":
    typer.run(main)
