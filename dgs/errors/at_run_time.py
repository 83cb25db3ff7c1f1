"""Errors that end a run: invalid rows, lost hosts, values that cannot be encoded, batches that do not match."""

from __future__ import annotations

from dgs.errors.families import RunError, UserCodeError


class ConnectorError(UserCodeError):
    """A user's source, sink or store breaks its contract by a wrong return value."""

    code = "DGS102"
    template = "{role} {ref}: {problem}"
    fix = "Its contract is in `dgs.connectors` and docs/connectors.md"


class NoStateError(UserCodeError):
    """The user's update returned None, which is not a state of the program."""

    code = "DGS103"
    template = "{function} of program {program} returned None{where}"
    fix = (
        "`update` must return the new state, also where it changes the old one in place: end every path with `return state`. "
        "If None is a state, let `init` return it, or annotate `update` with `-> ... | None`"
    )


class PredicateError(UserCodeError):
    """The predicate of a rule of `depends` raised."""

    code = "DGS104"
    template = "{trace}\nthe predicate of rule {rule} in `depends` raised {error} for the tags {tags}"
    fix = "It must return for every two tags of these kinds whether they depend on each other"


class OutOfOrderError(RunError):
    """A stream's timestamps decreased (or did not exceed a heartbeat) and `on_disorder` is `error`."""

    code = "DGS501"
    template = "stream {stream!r}, row {row}: timestamp {ts} comes after {previous}"
    fix = "Streams must be non-decreasing in time: sort the input, or set `on_disorder: drop` or `{{sort_within: DURATION}}`"


class UnownedTagError(RunError):
    """No worker of the plan owns the tag of an event."""

    code = "DGS503"
    template = "stream {stream!r}, row {row}: no worker of the plan owns tag {tag}{owned}"
    fix = "Add the tag to the stream's `tags:` and to a node of the plan, or let the planner make one"


class WorkerLostError(RunError):
    """A host process died or was cut off."""

    code = "DGS504"
    template = "host {host} was lost: {problem}"


class RayLostError(WorkerLostError):
    """The process that leads a Ray cluster (GCS) has ended, and Ray would end ours within a minute."""

    code = "DGS518"
    template = "{problem}"


class StalledError(RunError):
    """No worker can progress although streams have not ended."""

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
    """A run did not carry out a request in time."""

    code = "DGS508"
    template = "the run in {path} has not {what} within {seconds} s"
    fix = "{advice}"


class ReplayMismatchError(RunError):
    """A batch of an event log was written again with other rows."""

    code = "DGS510"
    template = (
        "event log {path}, stream {stream!r}: batch {batch!r} was written before, with other rows ({problem})"
    )
    fix = "A repeated batch must have the same rows: read the same input again, or use a new log"


class UnrepeatableLogError(RunError):
    """A Spark query lost its checkpoint directory, and rows that a new query would have to repeat were deleted from the log."""

    code = "DGS544"
    template = (
        "event log {path}, stream {stream!r}: the Spark checkpoint directory of its query is gone, and a new query cannot be "
        "compared with the log: {problem}"
    )
    fix = "Restore that directory (`.spark` in the log) from a copy, or begin a new log"


class ClosedLogError(RunError):
    """Rows were to be appended to a closed stream of an event log."""

    code = "DGS511"
    template = "event log {path}: stream {stream!r} is closed"
    fix = "Write to a new log: a closed stream takes no more rows"


class SparkQueryError(RunError):
    """The Spark query behind a stream ended with an error."""

    code = "DGS520"
    template = "stream {stream!r}: its Spark query failed: {problem}"
