"""The schema of plan.yaml: one model per section, validated by pydantic, unknown keys refused.

Sections hold what the user wrote, with units resolved (durations in nanoseconds, sizes in bytes); nothing here opens a file.

>>> RuntimeConfig.model_validate({"kind": "local", "buffer_bytes": "1MiB"}).buffer_bytes
1048576
>>> HeartbeatConfig.model_validate({"every": "10ms", "max_delay": "1s"}).every
10000000
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TimeUnit = Literal["ns", "us", "ms", "s", "m", "h", "d", "none"]


def parse_duration(text: Any) -> int:
    """Return a duration such as `10ms` in nanoseconds. Raises ValueError without a known unit."""
    return _with_unit(text, NANOSECONDS, "a duration with a unit, such as 10ms, 5s or 2h")


def parse_size(text: Any) -> int:
    """Return a size such as `256MiB` in bytes. Raises ValueError without a known unit."""
    return _with_unit(text, BYTES, "a size with a unit, such as 64KiB or 256MiB")


def parse_rate(text: Any) -> float:
    """Return a rate such as `3/h` in events per second. Raises ValueError without a known unit."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kKM]?)\s*/\s*(ms|s|m|h|d)\s*", str(text))
    if not match:
        raise ValueError(f"expected a rate such as 100/s, 2k/s or 3/h, got {text!r}")
    scale = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6}[match[2]]
    return float(match[1]) * scale / (NANOSECONDS[match[3]] / 10**9)


def _with_unit(text: Any, units: dict[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", str(text))
    if isinstance(text, bool) or not match or match[2] not in units:
        raise ValueError(f"expected {expected}, got {text!r}")
    return int(float(match[1]) * units[match[2]])


Duration = Annotated[int, BeforeValidator(lambda v: 0 if v in (0, "0") else parse_duration(v))]
Size = Annotated[int, BeforeValidator(parse_size)]
Rate = Annotated[float, BeforeValidator(parse_rate)]


class Section(BaseModel):
    """A section of plan.yaml: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnRef(Section):
    """A value that is read from a column of each row."""

    column: str


class TimeColumn(Section):
    """The column with the event time; `unit` where it differs from the plan's."""

    column: str
    unit: TimeUnit | None = None


Scalar = int | float | str | bool


class TagConfig(Section):
    """The tag of every event of a stream: a kind and a key, each literal or from a column.

    With the kind in a column, `kinds` lists those that may arrive (default: all kinds of the program).
    """

    kind: str | ColumnRef
    key: ColumnRef | Scalar | None = None
    kinds: list[str] | None = None


TagsConfig = TagConfig | list[TagConfig | str]
"""Either how to make the tag of each event, or the list of literal tags that events bring along themselves."""


def _ts(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


Ts = Annotated[TimeColumn, BeforeValidator(_ts)]
ColumnTypes = dict[str, Literal["int", "float", "str", "bool", "datetime"]]


class CsvSource(Section):
    """CSV files: a path or glob, `.gz` allowed. `NA` and empty are null; `columns` gives types where inference will not do."""

    path: str
    ts: Ts = TimeColumn(column="ts")
    columns: ColumnTypes = {}
    header: list[str] | None = None
    delimiter: str = ","


class JsonlSource(Section):
    """JSON lines: a path or glob, `.gz` allowed. With `heartbeats: true`, lines of `kind: heartbeat` are heartbeats."""

    path: str
    ts: Ts = TimeColumn(column="ts")
    heartbeats: bool = False


class ParquetSource(Section):
    """Parquet files: a path or glob."""

    path: str
    ts: Ts = TimeColumn(column="ts")


class GeneratorSource(Section):
    """A Python callable that yields sorted batches: Arrow tables, dictionaries of columns, or EventBatch.

    `ref` is "file.py:name" or "package.module:name"; `args` are passed by keyword.
    """

    ref: str
    args: dict[str, Any] = {}
    ts: Ts = TimeColumn(column="ts")


class SourceConfig(Section):
    """Where the events of a stream come from: exactly one of these."""

    csv: CsvSource | None = None
    jsonl: JsonlSource | None = None
    parquet: ParquetSource | None = None
    generator: GeneratorSource | None = None
    memory: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> SourceConfig:
        given = self.model_fields_set
        if len(given) != 1:
            raise ValueError(
                f"a source has exactly one of csv, jsonl, parquet, generator, memory; got {sorted(given)}"
            )
        return self

    @property
    def kind(self) -> str:
        """The name of the kind of source, such as `csv`."""
        return next(iter(self.model_fields_set))

    @property
    def details(self) -> Any:
        """The section of the kind of source."""
        return getattr(self, self.kind)


class SortWithin(Section):
    """A bounded reorder buffer: events at most this much late are put in order."""

    sort_within: Duration


class HeartbeatConfig(Section):
    """How a live source says that time passes."""

    every: Duration
    max_delay: Duration


class StreamConfig(Section):
    """An input stream. The order of streams in the file breaks ties between equal timestamps."""

    id: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")
    tags: TagsConfig
    source: SourceConfig
    payload: str | list[str] | None = None
    rate: Rate | None = None
    location: str | None = None
    split: int = Field(default=1, ge=1, le=1024)
    on_disorder: Literal["error", "drop"] | SortWithin = "error"
    heartbeat: HeartbeatConfig | None = None

    @property
    def impl_streams(self) -> tuple[str, ...]:
        """The implementation streams: the id itself, or `id/0`, `id/1`, ... when split."""
        return (self.id,) if self.split == 1 else tuple(f"{self.id}/{i}" for i in range(self.split))


class ProgramConfig(Section):
    """Which program to run, and with which arguments to make it."""

    ref: str
    args: dict[str, Any] = {}


class TimeConfig(Section):
    """The one unit of every timestamp of the plan."""

    unit: TimeUnit = "none"


class MachineConfig(Section):
    """A machine that can run workers."""

    id: str
    cpus: int = Field(default=1, ge=1)


class OptimizerConfig(Section):
    """Which optimizer makes the plan, and its options."""

    name: Literal["sequential", "random", "greedy"] = "greedy"
    seed: int = 0
    max_leaves: int | None = Field(default=None, ge=1)
    max_fan_out: int = Field(default=8, ge=2)


class RuntimeConfig(Section):
    """Who runs the plan: `ray` (host processes), or `local` (this process)."""

    kind: Literal["ray", "local"] = "ray"
    hosts: int | None = Field(default=None, ge=1)
    address: str = "local"
    buffer_bytes: Size = 256 * 2**20
    batch_rows: int = Field(default=16384, ge=1)
    linger: Duration = 5 * 10**6
    stop_timeout: Duration = 10 * 10**9


class FileSink(Section):
    """A directory that receives one file per host."""

    path: str


class SinkConfig(Section):
    """Where outputs go: exactly one of these."""

    jsonl: FileSink | None = None
    parquet: FileSink | None = None
    csv: FileSink | None = None
    stdout: Literal[True] | None = None
    memory: Literal[True] | None = None
    none: Literal[True] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {value: True} if value in ("stdout", "memory", "none") else value

    @model_validator(mode="after")
    def _exactly_one(self) -> SinkConfig:
        if len(self.model_fields_set) != 1:
            raise ValueError("a sink has exactly one of jsonl, parquet, csv, stdout, memory, none")
        return self

    @property
    def kind(self) -> str:
        """The name of the kind of sink, such as `jsonl`."""
        return next(iter(self.model_fields_set))

    @property
    def details(self) -> Any:
        """The section of the kind of sink."""
        return getattr(self, self.kind)


class PlanFile(Section):
    """A whole plan.yaml. `plan`, when given, is what `dgs plan` wrote; the planner reads it."""

    version: Literal[1]
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    time: TimeConfig = TimeConfig()
    program: ProgramConfig
    streams: list[StreamConfig] = Field(min_length=1)
    nodes: list[MachineConfig] | Literal["auto"] = "auto"
    optimizer: OptimizerConfig = OptimizerConfig()
    plan: dict[str, Any] | None = None
    runtime: RuntimeConfig = RuntimeConfig()
    sinks: list[SinkConfig] = []

    @model_validator(mode="after")
    def _unique_streams(self) -> PlanFile:
        ids = [stream.id for stream in self.streams]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"stream ids must be unique; {', '.join(twice)} appears more than once")
        return self
