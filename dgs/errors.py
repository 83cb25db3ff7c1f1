"""Every error dgs raises on purpose: what is wrong, where, and what to do about it.

::

    DgsError
    ├── UsageError               exit 2   a flag or argument that makes no sense
    ├── InvalidError             exit 3   a file, program or plan is wrong; nothing was started
    ├── ResourceError            exit 4   Ray, Java, a port, a directory is not to be had
    ├── RunError                 exit 5   the run failed
    ├── CheckpointError          exit 6   a checkpoint or log is refused, damaged, or cannot be written
    ├── UserCodeError            exit 1   update, fork, join or emit raised
    └── InternalError            exit 70  a bug in dgs

Errors carry their data as attributes; the sentence is built from them, so that programs can read what people read.

>>> error = OutOfOrderError(stream="flights", row=7, ts=10, previous=12)
>>> error.row, error.code, error.exit_code
(7, 'DGS501', 5)
>>> print(error)  # doctest: +ELLIPSIS
stream 'flights', row 7: timestamp 10 comes after 12...
"""

from __future__ import annotations

from typing import Any, ClassVar


class DgsError(Exception):
    """Base of all errors of dgs. Subclasses declare a `code`, a `template` over their facts, and a `fix`."""

    code: ClassVar[str] = "DGS000"
    exit_code: ClassVar[int] = 5
    template: ClassVar[str] = "{message}"
    fix: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        super().__init__(facts)

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)

    def __str__(self) -> str:
        sentence = self.template.format(**self.facts)
        return f"{sentence}. {self.fix.format(**self.facts)}" if self.fix else sentence


def _rebuild(cls: type[DgsError], facts: dict[str, Any]) -> DgsError:
    return cls(**facts)


class UsageError(DgsError):
    """A flag or argument makes no sense."""

    code = "DGS201"
    exit_code = 2


class UnfinishedRunError(UsageError):
    """A run of the same plan file has committed something and not come to its end."""

    code = "DGS202"
    template = "{run} has not come to its end: {progress}"
    fix = "Go on from there with `{resume}`, or begin anew with `{fresh}`"


class NoSuchRunError(UsageError):
    """There is no run there that the command could be meant for."""

    code = "DGS203"
    template = "{problem}"
    fix = "{advice}"


class InvalidError(DgsError):
    """A file, program or plan is wrong; nothing was started."""

    code = "DGS300"
    exit_code = 3


class PlanFileError(InvalidError):
    """plan.yaml cannot be read as one. `where` is file:line:column."""

    code = "DGS301"
    template = "{where}: {problem}"


class ProgramImportError(InvalidError):
    """The program named in plan.yaml cannot be imported."""

    code = "DGS302"
    template = "cannot load {ref!r}: {problem}"


class ProgramError(InvalidError):
    """The program is not one: a part is missing or contradicts another."""

    code = "DGS303"
    template = "program {program}: {problem}"


class AsymmetricDependenceError(InvalidError):
    """The functional dependence answers differently for (a, b) and (b, a) (Definition 2.1, clause 2)."""

    code = "DGS304"
    template = "the dependence is not symmetric: depends({left}, {right}) is {forward} but depends({right}, {left}) is {backward}"
    fix = "Two events either commute or they do not: answer the same both ways"


class InvalidPlanError(InvalidError):
    """The plan breaks V1, V2 or coverage. `violations` lists them all."""

    code = "DGS305"
    template = "the plan is not valid for program {program}:\n{listing}"


class NoPlanError(InvalidError):
    """No assignment of state types makes the tag tree a plan. `reason` names the node that failed."""

    code = "DGS306"
    template = "no plan found for program {program}: {reason}"


class MissingInputError(InvalidError):
    """An input file named by a source does not exist, or a glob matches nothing."""

    code = "DGS307"
    template = "stream {stream!r}: no file at {path}"
    fix = "Paths in plan.yaml are relative to the plan file"


class UnknownColumnError(InvalidError):
    """plan.yaml names a column that the source does not have."""

    code = "DGS308"
    template = "stream {stream!r}: there is no column {column!r} in {where}; its columns are {columns}"
    fix = "Correct the name under `ts:`, `tags:`, `payload:` or `columns:` of the stream"


class InvalidDiagramError(InvalidError):
    """A wire diagram breaks a side condition of Definition 2.2."""

    code = "DGS309"
    template = "the diagram is not one of program {program}: {problem}"


class ResourceError(DgsError):
    """Something outside of dgs is not to be had."""

    code = "DGS400"
    exit_code = 4


class RayUnavailableError(ResourceError):
    """Ray is not installed or does not start."""

    code = "DGS401"
    template = "Ray is not available: {problem}"
    fix = "Install it with `pip install 'dgs[ray]'`, or run with `--runtime local`"


class OutputUnwritableError(ResourceError):
    """Outputs or the run directory cannot be written."""

    code = "DGS402"
    template = "cannot write to {path}: {problem}"
    fix = (
        "Make the directory writable or name another one: in `sinks:`, or for the run itself with `--run-dir`"
    )


class MissingPackageError(ResourceError):
    """An optional package is needed and absent."""

    code = "DGS403"
    template = "{feature} needs the package {package!r}, which is not installed"
    fix = "Install it with `pip install {package}`"


class ChannelUnavailableError(ResourceError):
    """A host cannot listen for the others, or not reach one of them."""

    code = "DGS404"
    template = "host {host} has no channel to the others: {problem}"
    fix = "Let the machines connect to each other, or set `transport: ray` under `runtime:`"


class OwnedLogError(ResourceError):
    """An event log belongs to another writer."""

    code = "DGS410"
    template = "event log {path}: stream {stream!r} is written by {owner!r}, not by {writer!r}"
    fix = "One writer owns a log: use a log of its own, or take it over for good"


class JavaMissingError(ResourceError):
    """Spark needs Java, and there is none that will do."""

    code = "DGS411"
    template = "Spark needs Java 17 or newer: {problem}"
    fix = (
        "Install one (`apt install openjdk-17-jre-headless`, `brew install openjdk@17`, or from https://adoptium.net), "
        "or set JAVA_HOME to where it is"
    )


class SparkUnavailableError(ResourceError):
    """Spark does not start, or cannot be reached."""

    code = "DGS412"
    template = "Spark is not available: {problem}"
    fix = "What Spark said is in {log}; settings are under `spark:` of the plan file"


class RunError(DgsError):
    """The run failed."""

    code = "DGS500"
    exit_code = 5


class OutOfOrderError(RunError):
    """A stream's timestamps went back (or to or below a heartbeat) and `on_disorder` is `error`."""

    code = "DGS501"
    template = "stream {stream!r}, row {row}: timestamp {ts} comes after {previous}"
    fix = "Streams must be non-decreasing in time: sort the input, or set `on_disorder: drop` or `{{sort_within: DURATION}}`"


class MalformedRowError(RunError):
    """A row cannot be read as an event: a null or untypable timestamp or tag, a broken line."""

    code = "DGS502"
    template = "stream {stream!r}, row {row}: {problem}"


class UnownedTagError(RunError):
    """An event arrived whose tag no worker of the plan owns."""

    code = "DGS503"
    template = "stream {stream!r}, row {row}: no worker of the plan owns tag {tag}"
    fix = "Add the tag to the stream's `tags:` and to a node of the plan, or let the planner make one"


class WorkerLostError(RunError):
    """A host process died or was cut off."""

    code = "DGS504"
    template = "host {host} was lost: {problem}"


class StalledError(RunError):
    """Nothing can move any more although streams have not ended."""

    code = "DGS505"
    template = "the run is stuck: {reason}"


class CodecError(RunError):
    """A value cannot be encoded or decoded."""

    code = "DGS506"
    template = "{problem}"


class FrameGapError(RunError):
    """A frame between two hosts is missing (rule R1)."""

    code = "DGS507"
    template = "host {host}: frame {expected} of host {sender} is missing, {got} came instead"


class NoAnswerError(RunError):
    """A run did not do in time what it was asked to."""

    code = "DGS508"
    template = "the run in {path} has not {what} within {seconds} s"
    fix = "{advice}"


class SparkQueryError(RunError):
    """The Spark query behind a stream ended with an error."""

    code = "DGS520"
    template = "stream {stream!r}: its Spark query failed: {problem}"


class CheckpointError(DgsError):
    """A checkpoint or log is refused, damaged, or cannot be written."""

    code = "DGS600"
    exit_code = 6


class CheckpointRefusedError(CheckpointError):
    """A run cannot begin from what is in the directory: it is of another program, or nothing valid is left."""

    code = "DGS601"
    template = "cannot begin from the checkpoints in {path}: {problem}"
    fix = "{advice}"


class IncompatibleCheckpointError(CheckpointRefusedError):
    """A file is of another version of its format, or a state of another version of the program."""

    code = "DGS602"
    template = "{path}: its {what} has version {found}, and this is version {expected}"


class CheckpointFailedError(CheckpointError):
    """A checkpoint could not be made durable; the one before is still good."""

    code = "DGS603"
    template = "epoch {epoch} could not be committed to {path}: {problem}"
    fix = "Free space or mend the disk; what was committed before is safe, and a run can be resumed from it"


class FencedError(CheckpointError):
    """A newer generation of the run has begun: this one must not commit any more (rule R10)."""

    code = "DGS604"
    template = "generation {generation} may not commit to {path}: generation {newest} has begun"


class CheckpointBusyError(CheckpointError):
    """Another run has the directory of checkpoints open."""

    code = "DGS605"
    template = "{path} is in use by {holder}"
    fix = "Wait for that run or stop it, or use another directory"


class CorruptFileError(CheckpointError):
    """A file is torn, damaged, or not the one that its name says."""

    code = "DGS606"
    template = "{path} is damaged: {problem}"


class ReplayMismatchError(RunError):
    """A batch that is in an event log already was written again with other rows."""

    code = "DGS510"
    template = (
        "event log {path}, stream {stream!r}: batch {batch!r} was written before, with other rows ({problem})"
    )
    fix = "A batch that is repeated must have the rows it had: read the same input again, or use a new log"


class ClosedLogError(RunError):
    """The stream of an event log has been closed, and something else is to be appended."""

    code = "DGS511"
    template = "event log {path}: stream {stream!r} is closed"
    fix = "Write to a new log; what has ended does not go on"


class SourceChangedError(CheckpointError):
    """What was read before the checkpoint is not what the source gives now."""

    code = "DGS610"
    template = "stream {stream!r}: the source has changed since the checkpoint: {problem}"
    fix = "Bring back what was read (a file may grow, and new ones may follow it), or start anew without the checkpoint"


class UserCodeError(DgsError):
    """The user's update, fork, join or emit raised. The user's traceback comes first."""

    code = "DGS101"
    exit_code = 1
    template = "{trace}\n{function} of program {program} raised {error}{where}"


class InternalError(DgsError):
    """A broken invariant: a bug in dgs, not in the program or its input."""

    code = "DGS901"
    exit_code = 70
    template = "internal error: {problem}"
    fix = "This is a bug in dgs: please report it with the command and the run directory"
