"""The schema of plan.yaml: one model per section, validated by pydantic, unknown keys refused.

Sections hold what the user wrote, with units resolved (durations in nanoseconds, sizes in bytes); nothing here opens a file.
Law: `model_validate(model_dump(...))` gives an equal section (units are written back as text), so a resolved file can be run.

>>> RuntimeConfig.model_validate({"kind": "local", "buffer_bytes": "1MiB"}).buffer_bytes
1048576
>>> HeartbeatConfig.model_validate({"every": "10ms", "max_delay": "1s"}).every
10000000
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from dgs.units import Duration, Rate, Size, TimeUnit


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


Ts = Annotated[
    TimeColumn,
    BeforeValidator(_ts, json_schema_input_type=str | TimeColumn),
]
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


class Choice(Section):
    """A section of which exactly one key is given: its kind."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"minProperties": 1, "maxProperties": 1}
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"exactly one of {', '.join(type(self).model_fields)} is needed, got {', '.join(given) or 'none'}"
            )
        return self

    @property
    def kind(self) -> str:
        """The key that is given, such as `csv`."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def details(self) -> Any:
        """The section of that key."""
        return getattr(self, self.kind)


class SourceConfig(Choice):
    """Where the events of a stream come from: exactly one of these. `memory` names data given from Python."""

    csv: CsvSource | None = None
    jsonl: JsonlSource | None = None
    parquet: ParquetSource | None = None
    generator: GeneratorSource | None = None
    memory: str | None = None


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
    transport: Literal["direct", "ray"] = "direct"
    buffer_bytes: Size = 256 * 2**20
    batch_rows: int | None = Field(default=None, ge=1)
    linger: Duration = 5 * 10**6
    stop_timeout: Duration = 10 * 10**9


class FileSink(Section):
    """A directory that receives one file per host."""

    path: str


SINKS_WITHOUT_OPTIONS = ("stdout", "memory", "none")


class SinkConfig(Choice):
    """Where outputs go: exactly one of these. `stdout`, `memory` and `none` may be written as a plain name."""

    jsonl: FileSink | None = None
    parquet: FileSink | None = None
    csv: FileSink | None = None
    stdout: Literal[True] | None = None
    memory: Literal[True] | None = None
    none: Literal[True] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in SINKS_WITHOUT_OPTIONS:
            raise ValueError(
                f"expected one of {', '.join(SINKS_WITHOUT_OPTIONS)} or a mapping such as {{jsonl: {{path: out}}}},"
                f" got {value!r}"
            )
        return {value: True}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(SINKS_WITHOUT_OPTIONS)}, handler(schema)]}


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
    def _consistent(self) -> PlanFile:
        for place, problem in self._contradictions():
            raise PydanticCustomError("contradiction", "{problem}", {"place": place, "problem": problem})
        return self

    def _contradictions(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield what sections say against each other, with the place of each."""
        seen: set[str] = set()
        machines = None if self.nodes == "auto" else [machine.id for machine in self.nodes]
        for number, stream in enumerate(self.streams):
            place = ("streams", number)
            if stream.id in seen:
                yield (*place, "id"), f"stream ids must be unique, and {stream.id!r} is used twice"
            seen.add(stream.id)
            if machines is not None and stream.location is not None and stream.location not in machines:
                yield (
                    (*place, "location"),
                    f"no such node: {stream.location!r} is not in `nodes:` ({', '.join(machines)})",
                )
            if self.time.unit == "none" and isinstance(stream.on_disorder, SortWithin):
                yield (*place, "on_disorder"), "a duration needs the unit of ts: write `time: {unit: ms}`"
            if self.time.unit == "none" and stream.heartbeat is not None:
                yield (*place, "heartbeat"), "a duration needs the unit of ts: write `time: {unit: ms}`"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of plan.yaml, for editors; defaults are written as the file would have them."""
    schema = PlanFile.model_json_schema()
    runtime = schema["$defs"]["RuntimeConfig"]["properties"]
    for name, value in RuntimeConfig().model_dump(exclude_none=True).items():
        runtime[name]["default"] = value
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
