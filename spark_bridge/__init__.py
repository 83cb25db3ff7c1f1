"""The bridge to Spark: source streams from Spark, checkpoints in Spark tables, outputs as a Spark data source.

- `session`: one Spark session. `data_source`: `format("dgs")`. `ingest`: Spark queries that write event logs.
- `batch`: a plan on Spark alone. `tables`: checkpoints and outputs as tables.

The names a user calls are loaded on first use: Spark's Python processes import only the writer of event logs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"prepared": "dgs.spark_bridge.ingest.queries", "register": "dgs.spark_bridge.session.session"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dgs.spark_bridge' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
