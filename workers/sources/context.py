"""`SourceContext`: the values that the sources of a job share.

>>> SourceContext(Program()).unit
'none'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgs.job.units import TimeUnit
from dgs.model.program import Program


@dataclass(frozen=True)
class SourceContext:
    """The values with which every source of a job is opened.

    `unit`: the plan's unit of time. `base_dir`: the start of relative paths. `memory`: the data of `memory` sources by name.
    `log_dir`: the directory for logs of sockets and Spark queries that have no `log` in the plan.
    `skips`: rows that cannot be read become placeholder events (`on_error: skip`).
    """

    program: Program
    unit: TimeUnit = "none"
    base_dir: Path = field(default_factory=Path)
    memory: Mapping[str, Any] = field(default_factory=dict)
    log_dir: Path | None = None
    skips: bool = False
