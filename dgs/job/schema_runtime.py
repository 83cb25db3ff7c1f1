"""The schema of `runtime:`, `checkpoint:`, `spark:` and `sinks:` in plan.yaml. Durations are nanoseconds, sizes bytes.

>>> RuntimeConfig.model_validate({"kind": "local", "buffer_bytes": "1MiB"}).buffer_bytes
1048576
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from dgs.job.schema_base import Choice, Count, Duration, Flag, LocalPath, Section, Size, SparkPath, Yes
from dgs.job.units import local_path

SHORTEST_LOOK = 10**8
"""The least `replan.after`, in nanoseconds."""


class RestartsConfig(Section):
    """Restarts in a row of a run whose host died, without getting further: at once, then after `backoff`, twice that...."""

    max: Count = Field(default=5, ge=0)
    backoff: Duration = 10**9


class MetricsConfig(Section):
    """The address at which a run serves metrics for Prometheus. `port`: 0 for a free one. `host`: only this machine sees the default.

    `token`: who asks must show it, as `Authorization: Bearer ...`.
    """

    port: Count = Field(ge=0, le=65535)
    host: str = "127.0.0.1"
    token: str | None = Field(default=None, min_length=8, repr=False)


MOST_HOSTS = 1024
"""The most hosts of a run, and of a prediction."""


class RuntimeConfig(Section):
    """The runtime: `ray` (host processes), `local` (this process), or `spark` (alone, for data that ends).

    `hosts`: how many processes (default: the CPUs there are). `fewer_hosts`: whether a run goes on where its cluster has fewer CPUs.
    `address`: `local`, or a running Ray cluster's. `buffer_bytes`: the bound on buffered events per process. `linger`: how long the
    rows that a paced generator has due may wait for more.
    `stop_timeout`: how long a clean stop may wait for its checkpoint. `stall_after`: after so long without progress the run says
    what it waits for; 0: never. `compile`: whether updates are compiled to machine code; `require`: the run is refused where they are not.
    `metrics`: where Prometheus finds them.
    """

    kind: Literal["ray", "local", "spark"] = "ray"
    hosts: Count | None = Field(default=None, ge=1, le=MOST_HOSTS)
    fewer_hosts: Literal["go_on", "wait"] = "go_on"
    address: str = "local"
    transport: Literal["direct", "ray"] = "direct"
    buffer_bytes: Size = 256 * 2**20
    batch_rows: Count | None = Field(default=None, ge=1)
    linger: Duration = 5 * 10**6
    stop_timeout: Duration = 10 * 10**9
    stall_after: Duration = 10 * 10**9
    restarts: RestartsConfig = RestartsConfig()
    compile: Literal["auto", "require", "off"] = "auto"
    metrics: MetricsConfig | None = None


class SparkConfig(Section):
    """The Spark session, where a source, sink, checkpoint or the runtime needs one: embedded, of a cluster, or through Spark Connect."""

    master: str = "local[*]"
    remote: str | None = None
    conf: dict[str, str | int | float | bool] = {}


class SparkTable(Section):
    """A table or a directory of Parquet (or `format`) files that Spark writes."""

    table: str | None = None
    path: SparkPath | None = None
    format: str = "parquet"

    @model_validator(mode="after")
    def _one_place(self) -> SparkTable:
        if (self.table is None) == (self.path is None):
            raise ValueError("exactly one of table, path is needed")
        return self


IdentityPart = Literal["ts", "stream", "seq", "kind", "key", "epoch", "index"]
"""A part of what identifies an output: the `ts`, stream, row, kind and key of its event, its epoch, its number among those of its event."""
Identity = bool | list[IdentityPart] | dict[IdentityPart, str | None]


class IdentifiedSink(Section):
    """A sink that can write what identifies each output beside its value.

    `identity`: whether it does, with a column for each part; a list of parts; or other names for some (null leaves one out).
    """

    identity: Identity = False

    @model_validator(mode="after")
    def _has_distinct_names(self) -> IdentifiedSink:
        names = list(self.identity_columns().values())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two columns would have the name {twice[0]!r}: rename one under `identity`")
        return self

    def identity_columns(self) -> dict[str, str]:
        """Return the name of the column of each part of the identity, in order."""
        known = get_args(IdentityPart)
        if isinstance(self.identity, dict):
            names = {part: self.identity.get(part, part) for part in known}
            return {part: name for part, name in names.items() if name is not None}
        chosen = self.identity if isinstance(self.identity, list) else known if self.identity else ()
        return {part: part for part in known if part in chosen}


OutputMode = Literal["error", "replace-own", "append"]


class SparkSink(SparkTable, IdentifiedSink):
    """Outputs as a table for Spark: Parquet files that hosts write and each checkpoint publishes. `mode`: as in `FileSink`."""

    mode: OutputMode | None = None

    @model_validator(mode="after")
    def _is_parquet(self) -> SparkSink:
        if self.format != "parquet":
            raise ValueError(
                "hosts write Parquet, which Spark reads as a table: other formats are made of it"
            )
        local_path(self.path or "")  # hosts write it, not Spark
        return self


class CustomStore(Section):
    """A store of checkpoints of your own: a class that keeps the contract of `dgs.connectors.CheckpointStore`.

    The process that starts the run makes an object, with `args` by keyword.
    """

    ref: str
    args: dict[str, Any] = {}


class CheckpointConfig(Section):
    """The place and the times of checkpoints. `dir`: default in the run directory. `when`: a function of the state, "file.py:name".

    `every`: how long from one to the next. `keep`: how many are kept. `keep_logs`: whether the event logs of the run keep rows that
    no kept checkpoint needs. `spark`: a table that has a row for each. `custom`: a store
    of your own for the states; `dir` then has only the record of what is committed.
    """

    dir: LocalPath | None = None
    every: Duration = 5 * 10**9
    keep: Count = Field(default=5, ge=1)
    keep_logs: Flag = False
    when: str | None = None
    spark: SparkTable | None = None
    custom: CustomStore | None = None

    @model_validator(mode="after")
    def _has_states(self) -> CheckpointConfig:
        if self.custom is not None and self.spark is not None:
            raise ValueError(
                "`custom` and `spark` do not go together: rows of the table are made from states in the directory"
            )
        return self


def _some_time(duration: int) -> int:
    if duration < SHORTEST_LOOK:
        raise ValueError("it takes at least 100ms")
    return duration


class Mode(Section):
    """A section for which the plain name of its `mode` may stand."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(get_args(cls.model_fields["mode"].annotation))}, handler(schema)]}


class ObserveConfig(Mode):
    """The figures that a run takes of itself, every so often: for progress, `dgs top`, `dgs view`, reports and metrics. `off`: none."""

    mode: Literal["on", "off"] = "on"
    every: Annotated[Duration, AfterValidator(_some_time)] = 10**9

    @property
    def if_on(self) -> ObserveConfig | None:
        """This section, None if it says `off`."""
        return None if self.mode == "off" else self


class ReplanConfig(Mode):
    """The answer of a run to a faster plan: `advise` says so with the command, `auto` moves to it, `off` does not look.

    `gain`: how many times as fast it must be predicted to be. `after`: for how long, and the time over which rates are counted. A
    plain name is the mode.
    """

    mode: Literal["off", "advise", "auto"] = "advise"
    gain: float = Field(default=1.3, gt=1, allow_inf_nan=False)
    after: Annotated[Duration, AfterValidator(_some_time)] = 30 * 10**9


class FileSink(IdentifiedSink):
    """A directory for files: one per host, or with checkpoints one per host and checkpoint.

    `mode`: what a new run does with existing outputs. Default: it replaces those of the same job, and refuses others. `error`: it
    refuses all. `replace-own`: it replaces all that dgs wrote. `append`: it keeps them, and adds new ones.
    """

    path: LocalPath
    mode: OutputMode | None = None


def _own_table(name: str) -> str:
    if name.lower().startswith(("dgs_", "sqlite_")):
        raise ValueError(
            f"{name!r} may not begin with dgs_ or sqlite_: such tables are ours, or the database's"
        )
    return name


class SqliteSink(Section):
    """A table of a SQLite database: every output once, at once, by its id. `mode`: as in `FileSink`."""

    path: LocalPath
    table: Annotated[str, AfterValidator(_own_table)] = Field(
        default="outputs", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"
    )
    mode: OutputMode | None = None


class DeltaSink(IdentifiedSink):
    """A table of Delta Lake in the directory `path`: one version for each checkpoint. `mode`: as in `FileSink`.

    `by: kind` makes a table for each kind of event that has outputs, in a directory of its own. `columns`: types where the first
    outputs do not tell. `partition_by`: columns whose values divide the files; their types must be known beforehand.
    """

    path: LocalPath
    mode: OutputMode | None = None
    by: Literal["kind"] | None = None
    identity: Identity = True
    columns: dict[str, Literal["int", "float", "str", "bool", "datetime", "date", "bytes"]] = {}
    partition_by: list[str] = []

    @model_validator(mode="after")
    def _has_distinct_columns(self) -> DeltaSink:
        if twice := sorted(set(self.identity_columns().values()) & set(self.columns)):
            raise ValueError(f"two columns would have the name {twice[0]!r}: rename one under `identity`")
        return self

    @model_validator(mode="after")
    def _has_partitions_of_known_types(self) -> DeltaSink:
        kinds = {**dict.fromkeys(self.identity_columns().values(), "int"), **self.columns}
        for name in self.partition_by:
            kind = kinds.get(name)
            if kind not in ("int", "str", "bool", "date"):
                problem = "its type is not known" if kind is None else f"its type is {kind}"
                raise ValueError(
                    f"`partition_by` names {name!r}, and {problem}: give it `int`, `str`, `bool` or `date` under `columns`"
                )
        if len(set(self.partition_by)) < len(self.partition_by):
            raise ValueError("`partition_by` names a column twice")
        return self


class IcebergSink(DeltaSink):
    """A table of Iceberg: one snapshot for each checkpoint. Its files are in `path`, under its name. See `DeltaSink`.

    `catalog`: properties of a catalog, as in pyiceberg; by default a SQLite database in `path`.
    """

    table: str = Field(default="outputs", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
    catalog: dict[str, str] = {}


class CallableSink(Section):
    """A Python function that is called with each batch of outputs. It sees every output at least once, with its id."""

    ref: str
    args: dict[str, Any] = {}


class CustomSink(Section):
    """A sink of your own: a class that keeps the contract of `dgs.connectors.Sink`.

    One object is made in every host and one in the process that starts the run, with `args` by keyword.
    """

    ref: str
    args: dict[str, Any] = {}


SINKS_WITHOUT_OPTIONS = ("stdout", "memory", "none")


class SinkConfig(Choice):
    """A sink of outputs: exactly one of these. `stdout`, `memory` and `none` may be written as a plain name."""

    jsonl: FileSink | None = None
    parquet: FileSink | None = None
    csv: FileSink | None = None
    sqlite: SqliteSink | None = None
    delta: DeltaSink | None = None
    iceberg: IcebergSink | None = None
    callable: CallableSink | None = None
    custom: CustomSink | None = None
    spark: SparkSink | None = None
    stdout: Yes | None = None
    memory: Yes | None = None
    none: Yes | None = None

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
