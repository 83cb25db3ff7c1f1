"""The result of a run in Python: its outputs as a list, an Arrow table or a data frame, its report, plan and state.

>>> from dgs.model.tags import Tag
>>> batch = OutputBatch.of("s", rank=0, tags=[Tag("sum")], ts=[5], seq=[0], index=[0], values=[15])
>>> Run("windows", [batch], state=0, plan=None, report={"events_in": 3, "seconds": 0.5, "workers": 1, "runtime": "local"})
<Run windows: 3 events, 1 output in 0.5 s, 1 worker (local)>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgs.errors import MissingPackageError, UsageError
from dgs.model import columns
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
    `dead_letters`: the events that `on_error: skip` left out.
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
        self._batches = list(batches)

    @property
    def verified(self) -> bool | None:
        """Whether the outputs equal those of the sequential program; None if they were not compared."""
        return self.report.get("verified")

    @cached_property
    def outputs(self) -> list[OwnOutput]:
        """The values that `update` emitted, in the total order of their events."""
        values = [value for batch in self._batches for value in batch.to_list()]
        return [values[i] for i in self._order.tolist()]

    def to_arrow(self) -> Any:
        """Return the outputs as an Arrow table: ts, stream, kind, key, and the value.

        If all values are records (dictionaries, named tuples, dataclasses), their fields are columns; if they are tuples of several
        types, their places are, as `value_0`, `value_1`, ....

        Raises UsageError if the values have no common Arrow type.
        """
        import pyarrow as pa

        order = self._order.tolist()
        tags = [tag for batch in self._batches for tag in batch.tag_list()]
        ts = [t for batch in self._batches for t in batch.ts.tolist()]
        streams = [batch.stream for batch in self._batches for _ in range(len(batch))]
        table = {
            "ts": pa.array([ts[i] for i in order], pa.int64()),
            "stream": pa.array([streams[i] for i in order], pa.string()),
            "kind": pa.array([tags[i].kind for i in order], pa.string()),
            "key": _arrow_keys([tags[i].key for i in order]),
        }
        return pa.table({**table, **_arrow_values(self.outputs, set(table))})

    def to_pandas(self) -> pd.DataFrame:
        """Return the outputs as a pandas data frame, with the columns of `to_arrow`."""
        if find_spec("pandas") is None:
            raise MissingPackageError(feature="run.to_pandas()", package="pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the outputs as a Polars data frame, with the columns of `to_arrow`."""
        if find_spec("polars") is None:
            raise MissingPackageError(feature="run.to_polars()", package="polars")
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the outputs to any library that reads Arrow: `pl.DataFrame(run)`, `duckdb.sql("from run")`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[OwnOutput]:
        """Iterate over the outputs."""
        return iter(self.outputs)

    def __len__(self) -> int:
        return sum(map(len, self._batches))

    def __bool__(self) -> bool:
        """Return true, also for a run without outputs."""
        return True

    @cached_property
    def _order(self) -> columns.Indices:
        parts = [(one.rank, one.index, one.seq, one.ts) for one in self._batches]
        if not parts:
            return np.empty(0, dtype=np.intp)
        rank = np.concatenate([np.full(len(ts), rank) for rank, _, _, ts in parts])
        index, seq, ts = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
        return np.lexsort((index, seq, rank, ts))

    def __repr__(self) -> str:
        return f"<Run {self.name}: {summary(self.report, len(self))}>"


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
    """Return a number of bytes as people write it.

    >>> _size(999), _size(1_234_567)
    ('999 B', '1.23 MB')
    """
    for unit in ("B", "kB", "MB"):
        if number < 1000:  # noqa: PLR2004 - the step from one unit to the next
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} GB"


def _arrow_keys(keys: list[Any]) -> Any:
    """Return the keys unchanged if they have a common type, else as text."""
    import pyarrow as pa

    try:
        return pa.array(keys)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if key is None else repr(key) for key in keys], pa.string())


def _arrow_values(values: list[Any], taken: set[str]) -> dict[str, Any]:
    """Return the columns of values: the fields of records, the places of tuples of several types, else one column `value`."""
    import pyarrow as pa

    records = [found for value in values if (found := _fields(value)) is not None]
    names = list(dict.fromkeys(name for record in records for name in record))
    are_records = values and len(records) == len(values) and all(type(name) is str for name in names)
    try:
        if are_records and not taken & set(names):
            return {name: pa.array([record.get(name) for record in records]) for name in names}
        return _arrow_column(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        message = f"the outputs have no common Arrow type ({error}): use run.outputs"
        raise UsageError(message=message) from None


def _arrow_column(values: list[Any]) -> dict[str, Any]:
    import pyarrow as pa

    try:
        return {"value": pa.array(values)}
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        lengths = {len(value) if isinstance(value, (list, tuple)) else -1 for value in values}
        if len(lengths) != 1 or min(lengths) < 1:
            raise
    return {f"value_{place}": pa.array(column) for place, column in enumerate(zip(*values, strict=True))}


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a record: a dictionary, a named tuple or a dataclass; None for any other value."""
    if isinstance(value, dict):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    named: Mapping[Any, Any] | None = value._asdict() if hasattr(value, "_asdict") else None
    return named
