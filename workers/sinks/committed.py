"""Sinks that a commit makes visible through an object of their own: those of users, and lake tables.

>>> connected_by(SinkConfig.model_validate({"delta": {"path": "out", "mode": "append"}}))[0]
'delta'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgs.job.schema import SinkConfig
from dgs.workers.sinks.custom_sink import ConnectedSink, connected_sink
from dgs.workers.sinks.files.places import LAKE_KINDS


def connected_by(config: SinkConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a sink's class, or the kind of a lake, and its arguments."""
    if config.kind == "custom":
        return config.details.ref, config.details.args
    return config.kind, config.details.model_dump(exclude_defaults=True)


def connected(
    ref: str, args: Mapping[str, Any], base_dir: Path, *, program: str, job: Path | None = None
) -> ConnectedSink:
    """Return the sink of a name and arguments. `job`: whose outputs these are. Raises ProgramImportError, MissingPackageError."""
    if ref not in LAKE_KINDS:
        return connected_sink(ref, args, base_dir, program=program)
    from dgs.workers.sinks.lake.lake_sink import lake_sink

    return ConnectedSink(lake_sink(ref, args, base_dir, job), ref=ref, args=args, program=program)
