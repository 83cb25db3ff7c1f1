"""Errors of checkpoints and logs: refused, failed, fenced or damaged checkpoints, and changed sources."""

from __future__ import annotations

from dgs.errors.families import CheckpointError


class CheckpointRefusedError(CheckpointError):
    """The directory's checkpoints are of another program, or none is valid."""

    code = "DGS601"
    template = "cannot start from the checkpoints in {path}: {problem}"
    fix = "{advice}"


class IncompatibleCheckpointError(CheckpointRefusedError):
    """A file has another version of its format, or a state another version of the program."""

    code = "DGS602"
    template = "{path}: its {what} has version {found}, and this is version {expected}"


class CheckpointFailedError(CheckpointError):
    """A checkpoint could not be made durable; the previous one is still good."""

    code = "DGS603"
    template = "epoch {epoch} could not be committed to {path}: {problem}"
    fix = "Free space or repair the disk; earlier commits are safe, and the run can be resumed from them"


class FencedError(CheckpointError):
    """A newer generation of the run has begun, and this one may no longer commit (rule R10)."""

    code = "DGS604"
    template = "generation {generation} may not commit to {path}: generation {newest} has begun"


class CheckpointBusyError(CheckpointError):
    """Another run has the directory of checkpoints open."""

    code = "DGS605"
    template = "{path} is in use by {holder}"
    fix = "Wait for that run or stop it, or use another directory"


class CorruptFileError(CheckpointError):
    """A file is torn or damaged, or its content does not match its name."""

    code = "DGS606"
    template = "{path} is damaged: {problem}"


class SourceChangedError(CheckpointError):
    """The source no longer gives the data that was read before the checkpoint."""

    code = "DGS610"
    template = "stream {stream!r}: the source has changed since the checkpoint: {problem}"
    fix = "Restore the data that was read (a file may grow, and new files may follow it), or start again without the checkpoint"


class CodeChangedError(CheckpointError):
    """The program's code is not the code that made the checkpoint."""

    code = "DGS620"
    template = "the code of program {program} has changed since the run in {path} wrote its checkpoint:\n  {listing}\n"
    fix = (
        "Restore that code, or go on with the new code from the state of the old one: with `--accept-code-change` "
        "(`accept_code_change=True` in Python), or with a raised `version` and `migrate`. Or begin anew with `--fresh`"
    )


class SinkChangedError(CheckpointError):
    """A sink does not hold the outputs that the checkpoint says are committed."""

    code = "DGS611"
    template = "{path}: the table {table!r} does not hold the outputs that this run has committed: it was deleted, or another run wrote it"
    fix = "Restore the database from a copy, or start again without the checkpoint (`--fresh`)"
