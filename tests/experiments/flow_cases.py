"""The published cases of flows and pipelines, each with its plan file and settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dgs
from tests.dgs.flow.published import CASES as PUBLISHED
from tests.dgs.flow.published import EXPERIMENTS

HOLD = {"flow.args.hold": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "wordcount_bag": ("word_count/bag", {}),
    "wordcount_list": ("word_count/list", {}),
    "wordcount_stream_1000": ("word_count/stream", {}),
    "yahoo_1": ("yahoo/one", {}),
    "yahoo_2_skip": ("yahoo/two", {}),
    "yahoo_3_all": ("yahoo/three", {}),
    "yahoo_4_all": ("yahoo/four", {}),
    "yahoo_4_skip": ("yahoo/four_skip", {}),
    "yahoo_5": ("yahoo/five", {}),
    "yahoo_6": ("yahoo/six", {}),
    "apache_hourly": ("apache_logs/hourly", {}),
    "apache_6h_every_1h": ("apache_logs/six_hours", {}),
    "apache_since_404": ("apache_logs/since_404", {}),
    "plugs_as_published": ("smart_home/plugs", {}),
    "plugs_hold": ("smart_home/plugs", HOLD),
    "fx_stats": ("stock_market/fx", {}),
    "smart_home_as_published": ("smart_home/power", {}),
    "smart_home_hold": ("smart_home/power", HOLD),
    "stock_stats_emit": ("stock_market/stats", {}),
    "stock_stats_drop": ("stock_market/stats", {"flow.args.partial": "drop"}),
    "stock_warnings": ("stock_market/warnings", {}),
    "stock_correlated": ("stock_market/correlated", {}),
}


def ran(case: str, directory: Path, **options: Any) -> Any:
    """Run the plan file of a case; compare its output files with the case."""
    name, settings = CASES[case]
    path, settings = EXPERIMENTS / f"{name}.yaml", settings | options.pop("settings", {})
    run = dgs.run(path, run_dir=directory / "run", fresh=True, settings=settings, **options)
    files = [str(file) for file in sorted((directory / "run" / "outputs").glob("*.jsonl"))]
    compared = subprocess.run(
        [sys.executable, str(PUBLISHED / "compare.py"), case, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr
    return run
