"""What ends a run on its way: rows that are no events, hosts that are lost, values and batches that do not fit."""

from __future__ import annotations

from dgs.errors.families import RunError


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


class SparkQueryError(RunError):
    """The Spark query behind a stream ended with an error."""

    code = "DGS520"
    template = "stream {stream!r}: its Spark query failed: {problem}"
