"""The schema of plan.yaml: one model per section, validated by pydantic, unknown keys refused.

Sections hold the user's values with units resolved (durations in nanoseconds, sizes in bytes). No file is opened here.
Law: `model_validate(model_dump(...))` gives an equal section (units are written back as text), so a resolved file can be run.

>>> RuntimeConfig.model_validate({"kind": "local", "buffer_bytes": "1MiB"}).buffer_bytes
1048576
>>> HeartbeatConfig.model_validate({"every": "10ms", "max_delay": "1s"}).every
10000000
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dgs.job.private_files import OWNER_ONLY
from dgs.job.queries.schema_query import QueryConfig, WeightConfig
from dgs.job.schema_base import Choice, Count, Duration, Flag, One, Rate, Scalar, Section, Umask, Whole
from dgs.job.schema_runtime import (
    SINKS_WITHOUT_OPTIONS,
    CallableSink,
    CheckpointConfig,
    CustomSink,
    FileSink,
    MetricsConfig,
    ObserveConfig,
    ReplanConfig,
    RestartsConfig,
    RuntimeConfig,
    SinkConfig,
    SparkConfig,
    SparkSink,
    SparkTable,
    SqliteSink,
)
from dgs.job.schema_sources import (
    ColumnRef,
    ColumnTypes,
    CsvSource,
    CustomSource,
    GeneratorSource,
    JsonlSource,
    LiteralValue,
    LogSource,
    ParquetSource,
    SocketSource,
    SourceConfig,
    SparkSource,
    TicksSource,
    TimeColumn,
    Ts,
)
from dgs.job.units import TimeUnit

__all__ = [
    "SINKS_WITHOUT_OPTIONS", "CallableSink", "CheckpointConfig", "Choice", "ColumnRef", "ColumnTypes",
    "CsvSource", "CustomSink", "CustomSource", "FileSink", "FlowConfig", "GeneratorSource", "HeartbeatConfig",
    "JsonlSource", "LiteralValue", "LogSource", "MachineConfig", "MetricsConfig", "ObserveConfig",
    "OptimizerConfig", "ParquetSource", "PlanFile", "ProgramConfig", "QueryConfig", "ReplanConfig",
    "RestartsConfig", "RuntimeConfig", "Section", "SinkConfig", "SocketSource", "SortWithin", "SourceConfig",
    "SparkConfig", "SparkSink", "SparkSource", "SparkTable", "SqliteSink", "StreamConfig", "TagConfig",
    "TagsConfig", "TicksSource", "TimeColumn", "TimeConfig", "Ts", "WeightConfig", "json_schema",
]  # fmt: skip


class TagConfig(Section):
    """The tag of every event of a stream: a kind and a key, each literal or from a column.

    With the kind in a column, `kinds` lists the possible ones (default: all kinds of the program). A text that is also the name of a
    column, and that the program does not list, must be `{value: ...}` or `{column: ...}`.
    """

    kind: str | ColumnRef | LiteralValue
    key: ColumnRef | LiteralValue | Scalar | None = None
    kinds: list[str] | None = None

    @property
    def parts(self) -> tuple[str | ColumnRef, ColumnRef | Scalar | None]:
        """The kind and the key, with plain constants."""
        kind, key = (part.value if isinstance(part, LiteralValue) else part for part in (self.kind, self.key))
        return kind if isinstance(kind, ColumnRef) else str(kind), key


TagsConfig = TagConfig | list[TagConfig | str]
"""Either how to make the tag of each event, or the list of literal tags that events bring along themselves."""


class SortWithin(Section):
    """A bounded reorder buffer: events at most this much late are put in order. `late`: what to do with later ones."""

    sort_within: Duration
    late: Literal["stop", "drop", "dead_letter"] = "stop"


class HeartbeatConfig(Section):
    """Heartbeats of a live source, which say that time passes."""

    every: Duration
    max_delay: Duration


FOR_QUERIES = ("weight", "deletes", "columns")
"""Keys of a stream that only a query reads."""


class StreamConfig(Section):
    """An input stream. The order of streams in the file breaks ties between equal timestamps.

    For a query: `weight` says which rows are deletions; all rows of a stream with `deletes` are, of those of the stream it names;
    `columns` gives the types of its columns, which need not be looked up in its first rows.
    """

    id: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")
    tags: TagsConfig
    source: SourceConfig
    payload: str | list[str] | None = None
    rate: Rate | None = None
    location: str | None = None
    split: Count = Field(default=1, ge=1, le=1024)
    on_disorder: Literal["error", "drop"] | SortWithin = "error"
    heartbeat: HeartbeatConfig | None = None
    weight: WeightConfig | None = None
    deletes: str | None = None
    columns: ColumnTypes | None = None

    @property
    def impl_streams(self) -> tuple[str, ...]:
        """The implementation streams: the id itself, or `id/0`, `id/1`, ... when split."""
        return (self.id,) if self.split == 1 else tuple(f"{self.id}/{i}" for i in range(self.split))


class ProgramConfig(Section):
    """The program to run, and the arguments to make it with. `classes`: if `ref` is a flow, the number of hash classes of its keys.

    `query`: a query in place of `ref`, see `dgs.job.query_streams`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"oneOf": [{"required": ["ref"]}, {"required": ["query"]}]},
    )

    ref: str
    args: dict[str, Any] = {}
    classes: Count | None = Field(default=None, ge=1, le=65536)
    query: QueryConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _query_or_ref(cls, data: Any) -> Any:
        """Let a query stand for `ref`, which nothing then reads."""
        if isinstance(data, dict) and data.get("query") is not None:
            return {"ref": "", **data}
        return data

    @model_validator(mode="after")
    def _query_alone(self) -> ProgramConfig:
        if self.query is not None and (self.ref or self.args or self.classes is not None):
            raise PydanticCustomError(
                "choice",
                "`query:` takes the place of `ref:`, `args:` and `classes:`; parameters are `params:` of the query",
            )
        return self

    @model_serializer(mode="wrap")
    def _written(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a query without the program that it stands for."""
        written: dict[str, Any] = plain(self)
        if self.query is None:
            written.pop("query", None)
        else:
            for name in ("ref", "args", "classes"):
                written.pop(name, None)
        return written


class FlowConfig(Section):
    """The flow to run in place of a program, with values for its arguments. `classes`: the number of hash classes of keys."""

    ref: str
    args: dict[str, Any] = {}
    classes: Count = Field(default=64, ge=1, le=65536)


class TimeConfig(Section):
    """The one unit of every timestamp of the plan."""

    unit: TimeUnit = "none"


class MachineConfig(Section):
    """A machine that can run workers."""

    id: str
    cpus: Count = Field(default=1, ge=1)


class OptimizerConfig(Section):
    """The optimizer that makes the plan, and its options. `auto`: `greedy` on the runtime `spark`, else `cost`."""

    name: Literal["auto", "sequential", "random", "greedy", "cost", "exhaustive"] = "auto"
    seed: Whole = 0
    max_leaves: Count | None = Field(default=None, ge=1)
    max_fan_out: Count = Field(default=8, ge=2)


class PlanFile(Section):
    """A whole plan.yaml. `plan`, when given, is what `dgs plan` wrote; the planner reads it.

    `umask`: who may not read the files of the run directory, as three octal digits: "077" all but you, "007" all but you and
    your group. `report`: whether the run leaves its page as report.html in its directory.
    """

    version: One
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    time: TimeConfig = TimeConfig()
    program: ProgramConfig
    flow: FlowConfig | None = None
    streams: list[StreamConfig] = Field(min_length=1)
    nodes: list[MachineConfig] | Literal["auto"] = "auto"
    optimizer: OptimizerConfig = OptimizerConfig()
    plan: dict[str, Any] | None = None
    runtime: RuntimeConfig = RuntimeConfig()
    checkpoint: CheckpointConfig | None = None
    replan: ReplanConfig = ReplanConfig()
    observe: ObserveConfig = ObserveConfig()
    spark: SparkConfig = SparkConfig()
    sinks: list[SinkConfig] = []
    on_error: Literal["stop", "skip"] = "stop"
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    umask: Umask = OWNER_ONLY
    report: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _with_front(cls, data: Any) -> Any:
        """Let a flow stand for the program, and give the tags of streams of a flow or a query later: see `dgs.job.flow_streams`."""
        if not isinstance(data, dict):
            return data
        flow, program = data.get("flow"), data.get("program")
        if flow is None and not (isinstance(program, dict) and program.get("query") is not None):
            return data
        found, streams = dict(data), data.get("streams")
        if flow is not None:
            try:
                named = FlowConfig.model_validate(flow).model_dump()
            except ValidationError:  # it is reported at the flow
                named = {"ref": ""}
            found["program"] = data.get("program", named)
        if isinstance(streams, list):
            found["streams"] = [{"tags": [], **one} if isinstance(one, dict) else one for one in streams]
        return found

    @model_serializer(mode="wrap")
    def _written(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a flow as the file has it, without the program that it stands for."""
        written: dict[str, Any] = plain(self)
        if self.flow is not None:
            written.pop("program", None)
        return written

    @model_validator(mode="after")
    def _consistent(self) -> PlanFile:
        for place, problem in self._contradictions():
            raise PydanticCustomError("contradiction", "{problem}", {"place": place, "problem": problem})
        return self

    def _contradictions(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield contradictions between sections, each with its place."""
        yield from self._wrong_ticks()
        yield from self._wrong_weights()
        if self.flow is not None and self.program.model_dump() != self.flow.model_dump():
            yield ("flow",), "a plan file has a `program:` or a `flow:`, not both"
        if self.runtime.metrics is not None and self.observe.mode == "off":
            yield ("observe",), "metrics are made of figures: leave out `observe: off`, or `runtime.metrics`"
        seen: set[str] = set()
        machines = None if self.nodes == "auto" else [machine.id for machine in self.nodes]
        for number, stream in enumerate(self.streams):
            place = ("streams", number)
            if stream.id in seen:
                yield (*place, "id"), f"stream ids must be unique, but {stream.id!r} is used twice"
            seen.add(stream.id)
            if machines is not None and stream.location is not None and stream.location not in machines:
                yield (
                    (*place, "location"),
                    f"no such node: {stream.location!r} is not in `nodes:` ({', '.join(machines)})",
                )
            is_spark = stream.source.kind == "spark"
            if (
                isinstance(stream.on_disorder, SortWithin)
                and stream.on_disorder.late == "dead_letter"
                and not is_spark
            ):
                yield (
                    (*place, "on_disorder"),
                    "dead letters of late rows are those of a `spark` source: write `late: drop`",
                )
            if self.time.unit == "none" and isinstance(stream.on_disorder, SortWithin):
                yield (*place, "on_disorder"), "a duration needs the unit of ts: write `time: {unit: ms}`"
            if self.time.unit == "none" and stream.heartbeat is not None:
                yield (*place, "heartbeat"), "a duration needs the unit of ts: write `time: {unit: ms}`"

    def _wrong_weights(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for number, stream in enumerate(self.streams if self.program.query is None else ()):
            for key in (name for name in FOR_QUERIES if getattr(stream, name) is not None):
                yield ("streams", number, key), f"`{key}:` is for a query: `program: {{query: ...}}`"

    def _wrong_ticks(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        ticks = [number for number, stream in enumerate(self.streams) if stream.source.kind == "ticks"]
        if len(ticks) > 1:
            names = " and ".join(repr(self.streams[number].id) for number in ticks[:2])
            yield ("streams", ticks[1]), f"one stream of ticks is possible, but {names} are both of ticks"
        if ticks and len(ticks) == len(self.streams):
            yield ("streams", 0), "ticks follow other streams, and there are none"
        for number in ticks:
            stream = self.streams[number]
            plain = {"split": 1, "payload": None, "on_disorder": "error", "heartbeat": None}
            for key in (name for name, value in plain.items() if getattr(stream, name) != value):
                yield (
                    ("streams", number, key),
                    f"a stream of ticks has no rows, so `{key}:` does not apply to it",
                )
            if stream.source.details.start is not None and self.runtime.kind != "local":
                problem = "with `start:` no tick is left out, which needs all streams in one process: `runtime: {kind: local}`"
                yield ("streams", number, "source"), problem


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of plan.yaml, for editors, with defaults as a file would have them."""
    schema = PlanFile.model_json_schema()
    runtime = schema["$defs"]["RuntimeConfig"]["properties"]
    for name, value in RuntimeConfig().model_dump(exclude_none=True).items():
        runtime[name]["default"] = value
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
