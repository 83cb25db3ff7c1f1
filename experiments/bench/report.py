"""The results of a benchmark run: a table on the terminal, a JSON file with every sample, a drawing."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

from dgs.bench.measuring import Sample, medians
from experiments.bench.targets import Ratios

PACKAGES = ("dgs", "numpy", "pyarrow", "ray", "msgpack", "bytewax", "apache-flink")
ROOT = Path(__file__).resolve().parents[2]


def surroundings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the surroundings of a measurement: machine, versions, commit, options."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "load": os.getloadavg()[0],
        },
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "options": dict(options),
    }


def write_json(path: Path, about: Mapping[str, Any], samples: Sequence[Sample], **more: Any) -> None:
    """Write all samples and medians."""
    write_data(path, {**about, "rows": [one.row() for one in samples], "medians": medians(samples), **more})


def write_data(path: Path, data: Mapping[str, Any]) -> None:
    """Write an object as JSON."""
    path.write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")


def print_table(title: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the medians, with their ratios to the baselines and their targets."""
    from rich.table import Table

    rows = list(rows)
    ratios = Ratios(rows)
    table = Table(title=title, title_justify="left")
    for name in ("app", "engine", "mode"):
        table.add_column(name, no_wrap=True)
    for name in ("leaves", "hosts", "runs", "events", "ms", "wall ms", "M events/s", "x loop", "x numpy"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("us/sync", justify="right")
    table.add_column("target")
    before = None
    for row in rows:
        if before is not None and before != row["app"]:
            table.add_section()
        before = row["app"]
        table.add_row(*_cells(row, ratios))
    console().print(table)


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a verdict for each row that has a target."""
    ratios = Ratios(rows)
    for row in rows:
        if verdict := ratios.verdict(row):
            name = f"{row['app']} on {row['engine']}, {row['mode']}, {row['leaves']} leaves, {row['hosts']} hosts"
            yield f"target {verdict} ({name})"


def _cells(row: Mapping[str, Any], ratios: Ratios) -> list[str]:
    verdict = ratios.verdict(row)
    judged = "" if verdict is None else f"[{'green' if verdict.is_met else 'yellow'}]{verdict}"
    return [
        row["app"],
        row["engine"],
        row["mode"],
        str(row["leaves"]),
        str(row["hosts"]),
        str(row["samples"]),
        f"{row['events']:,.0f}",
        f"{row['seconds'] * 1e3:,.1f}",
        f"{row['wall_seconds'] * 1e3:,.1f}",
        f"{row['eps'] / 1e6:,.2f}",
        _ratio(ratios.to("loop", row)),
        _ratio(ratios.to("numpy", row)),
        _per_synchronisation(row),
        f"[red]{'WRONG' if row['events'] else 'FAILED'}: {row['problem'].splitlines()[0][:60]}"
        if row["problem"]
        else judged,
    ]


def _per_synchronisation(row: Mapping[str, Any]) -> str:
    count = row["figures"].get("synchronisations")
    return f"{row['seconds'] / count * 1e6:,.1f}" if count else "-"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def console() -> Any:
    """Return the console for tables. It is wide enough for them where the output is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str | None:
    """Return the measured commit, with a plus sign if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)  # noqa: S603
        changed = subprocess.run(  # noqa: S603
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


BAR, GAP, LABEL, SPAN, VALUE = 14, 22, 250, 480, 90
"""Pixels: the height of a bar with its gap, the gap between groups, and the widths of the three columns."""
COLOURS = {"loop": "#9aa0a6", "numpy": "#e8a33d", "local": "#3f7cac", "ray": "#5b9279"}


def as_svg(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the drawing of the rows of `medians`, without failed ones: bars on a logarithmic scale, one group per application.

    >>> row = {"app": "fraud", "engine": "loop", "mode": "scalar", "leaves": 1, "hosts": 1, "eps": 5e6, "problem": None}
    >>> drawing = as_svg([row])
    >>> drawing.count("<rect"), "5.00 M/s" in drawing
    (1, True)
    """
    drawn = [row for row in rows if row["eps"] > 0 and not row["problem"]]
    powers = [math.log10(row["eps"]) for row in drawn]
    low, high = math.floor(min(powers, default=0)), math.ceil(max(powers, default=1))
    lines: list[str] = []
    top, app = GAP, None
    for row, power in zip(drawn, powers, strict=True):
        if row["app"] != app:
            app, top = row["app"], top + (GAP if app is not None else 0)
            lines.append(f'<text x="4" y="{top - 6}" font-weight="bold">{escape(app)}</text>')
        lines += _bar(row, top, SPAN * (power - low) / max(high - low, 1))
        top += BAR
    width, height = LABEL + SPAN + VALUE, top + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">'
    scale = f'<text x="{LABEL}" y="10">events per second, logarithmic from 10^{low} to 10^{high}</text>'
    return "\n".join([head, scale, *lines, "</svg>", ""])


def _bar(row: Mapping[str, Any], top: int, length: float) -> Iterator[str]:
    label = f"{row['engine']} {row['mode']}, {_count(row['leaves'], 'leaf')}, {_count(row['hosts'], 'host')}"
    colour = COLOURS.get(row["engine"].partition("-")[0], "#9aa0a6")
    yield f'<text x="12" y="{top + BAR - 4}">{escape(label)}</text>'
    yield f'<rect x="{LABEL}" y="{top}" width="{max(length, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>'
    yield f'<text x="{LABEL + length + 4:.1f}" y="{top + BAR - 4}">{row["eps"] / 1e6:,.2f} M/s</text>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {'leaves' if noun == 'leaf' else noun + 's'}"
