"""The directory that every run leaves: the resolved plan.yaml, results.json, outputs, and after a failure what was kept.

>>> import tempfile
>>> directory = RunDirectory.create(Path(tempfile.mkdtemp()) / "run")
>>> directory.write_results({"events_in": 3})
>>> json.loads((directory.path / "results.json").read_text())
{'events_in': 3}
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.config import PlanFile
from dgs.errors import OutputUnwritableError

OUTPUTS = "outputs"


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run. All methods raise OutputUnwritableError if it cannot be written."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make the directory; it may exist if it is empty of earlier results."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputUnwritableError(path=path, problem=error.strerror or str(error)) from None
        if (path / "results.json").exists() or (path / OUTPUTS).exists():
            raise OutputUnwritableError(path=path, problem="it holds the results of an earlier run")
        return cls(path)

    @classmethod
    def beside(cls, base_dir: Path) -> RunDirectory:
        """Make a new directory `.dgs/runs/<id>` beside a plan file; ids sort by time."""
        inside_another = base_dir.parent.name == "runs" and base_dir.parent.parent.name == ".dgs"
        runs = base_dir.parent if inside_another else base_dir / ".dgs" / "runs"
        return cls.create(runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")

    @property
    def outputs(self) -> Path:
        """Where outputs go when the plan file names no sinks."""
        return self.path / OUTPUTS

    def write_plan(self, config: PlanFile, plan: Mapping[str, Any], base_dir: Path) -> None:
        """Write the resolved plan.yaml with the plan that is run: running it again does the same."""
        from dgs.plan_file import dump

        data = relocated(config, base_dir, self.path)
        self._write("plan.yaml", dump({**data, "plan": plan}))

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Write results.json."""
        self._write("results.json", json.dumps(results, indent=2, default=str) + "\n")

    def write_traceback(self, text: str) -> Path:
        """Write the traceback of a bug and return where it is."""
        self._write("traceback.txt", text)
        return self.path / "traceback.txt"

    def partial_files(self) -> list[Path]:
        """Return the outputs that a failed run left in this directory."""
        return sorted(self.path.rglob("*.partial"))

    def _write(self, name: str, text: str) -> None:
        target = self.path / name
        try:
            draft = target.with_name(name + ".draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(target)
        except OSError as error:
            raise OutputUnwritableError(path=target, problem=error.strerror or str(error)) from None


def relocated(config: PlanFile, base_dir: Path, new_dir: Path) -> dict[str, Any]:
    """Return a plan file's data with its relative paths rewritten for a file in another directory."""

    def moved(path: str) -> str:
        if os.path.isabs(path):  # noqa: PTH117 - the path may be a glob
            return path
        return os.path.relpath(base_dir.resolve() / path, new_dir.resolve())

    def moved_ref(ref: str) -> str:
        source, colon, name = ref.rpartition(":")
        return f"{moved(source)}{colon}{name}" if source.endswith(".py") else ref

    data = config.model_dump(exclude_none=True)
    data["program"]["ref"] = moved_ref(data["program"]["ref"])
    for section in [*(stream["source"] for stream in data["streams"]), *data["sinks"]]:
        (details,) = section.values()
        if isinstance(details, dict) and "path" in details:
            details["path"] = moved(details["path"])
        if isinstance(details, dict) and "ref" in details:
            details["ref"] = moved_ref(details["ref"])
    return data
