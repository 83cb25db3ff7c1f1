"""The result of a run in Python: its outputs as a list, an Arrow table or a data frame, its report, plan and state.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("sum")], ts=[5], seq=[0], index=[0], values=[15])
>>> Run("windows", [batch], state=0, plan=None, report={"events_in": 3, "seconds": 0.5, "workers": 1, "runtime": "local"})
<Run windows: 3 events, 1 output in 0.5 s, 1 worker (local)>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.frames.output_list import Outputs, link, paragraph
from dgs.model.outputs import OutputBatch
from dgs.model.program import OwnOutput, OwnState, Typed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from dgs.planner.plan import Plan
    from dgs.semantics.skipped_events import DeadLetter


class Run(Typed[OwnState, OwnOutput]):
    """A finished run.

    `report`: the content of results.json. `plan`: the plan that was run. `state`: the final state of the program. `run_dir`: the
    directory of the run (None if nothing was written). `differences`: the first differences to the sequential program.
    `dead_letters`: the events that `on_error: skip` left out. `batches` is iterated over each time the outputs are asked for.
    """

    def __init__(
        self,
        name: str,
        batches: Iterable[OutputBatch],
        *,
        state: OwnState,
        plan: Plan,
        report: dict[str, Any],
        run_dir: Path | None = None,
        differences: Sequence[str] = (),
        dead_letters: Sequence[DeadLetter] = (),
    ) -> None:
        self.name = name
        self.state = state
        self.plan = plan
        self.report = report
        self.run_dir = run_dir
        self.differences = list(differences)
        self.dead_letters = list(dead_letters)
        self._batches = batches  # perhaps in a file, and more than fit into memory

    def __getstate__(self) -> dict[str, Any]:
        """Return the data for a copy, with all outputs in memory."""
        return {**self.__dict__, "_batches": list(self._batches)}

    @property
    def verified(self) -> bool | None:
        """Whether the outputs equal those of the sequential program; None if they were not compared."""
        return self.report.get("verified")

    @cached_property
    def outputs(self) -> Outputs[OwnOutput]:
        """The values that `update` emitted, in the total order of their events."""
        return Outputs(list(self._batches))

    def to_arrow(self) -> Any:
        """Return the outputs as an Arrow table: see `Outputs.to_arrow`."""
        return self.outputs.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """Return the outputs as a pandas data frame, with the columns of `to_arrow`."""
        return self.outputs.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the outputs as a Polars data frame, with the columns of `to_arrow`."""
        return self.outputs.to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Pass the outputs to any library that reads Arrow: `pl.DataFrame(run)`, `duckdb.sql("from run")`."""
        return self.outputs.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[OwnOutput]:
        """Iterate over the outputs."""
        return iter(self.outputs)

    def __len__(self) -> int:
        return sum(map(len, self._batches))

    def __bool__(self) -> bool:
        """Return true, also for a run without outputs."""
        return True

    def __repr__(self) -> str:
        return f"<Run {self.name}: {summary(self.report, len(self))}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the summary, the plan as a tree, the first outputs, a link to the report."""
        # imported here, because programs that only read states need no planner
        from dgs.notebook import plan_html

        report = None if self.run_dir is None else self.run_dir / "report.html"
        parts = [
            paragraph(self.name, summary(self.report, len(self))),
            plan_html(self.plan),
            self.outputs._repr_html_(),
        ]
        if report is not None and report.exists():
            parts.append(link(report, "the report of this run"))
        return "".join(parts)


def summary(report: dict[str, Any], outputs: int | None = None) -> str:
    """Return a summary in one line."""
    seconds, before = report["seconds"], report.get("events_before", 0)
    now = f"{_count(max(report['events_in'] - before, 0), 'event')}, "
    parts = [now + _count(outputs or report.get("outputs", 0), "output")]
    if before:
        parts[0] = f"{before:,} events before, then {parts[0]}"
    started = sorted(report.get("start_up_seconds", {}).items(), reverse=True)
    parts[0] = "".join(f"{part} {took:.2g} s, " for part, took in started) + f"{parts[0]} in {seconds:.3g} s"
    if report.get("throughput_eps"):
        parts[0] += f" ({report['throughput_eps']:,.0f} events/s)"
    hosts = f" on {_count(report['hosts'], 'host')}" if report.get("hosts") else ""
    parts.append(f"{_count(report['workers'], 'worker')}{hosts} ({report['runtime']})")
    if (between := (report.get("between_hosts") or {}).get("bytes")) and report.get("hosts", 1) > 1:
        parts.append(f"{_size(between)} between hosts")
    dropped = sum((report.get("drops") or {}).values())
    if dropped:
        parts.append(f"{_count(dropped, 'event')} dropped")
    if report.get("skipped"):
        parts.append(f"{_count(report['skipped'], 'event')} skipped")
    if report.get("verified") is not None:
        parts.append("verified" if report["verified"] else "NOT equal to the sequential program")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(number: float) -> str:
    """Return a number of bytes as text.

    >>> _size(999), _size(1_234_567)
    ('999 B', '1.23 MB')
    """
    for unit in ("B", "kB", "MB"):
        if number < 1000:  # noqa: PLR2004 - the step from one unit to the next
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} GB"
