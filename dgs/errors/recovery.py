"""What keeps a run from committing or from going on: checkpoints refused, failed, fenced, damaged; sources changed."""

from __future__ import annotations

from dgs.errors.families import CheckpointError


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


class SourceChangedError(CheckpointError):
    """What was read before the checkpoint is not what the source gives now."""

    code = "DGS610"
    template = "stream {stream!r}: the source has changed since the checkpoint: {problem}"
    fix = "Bring back what was read (a file may grow, and new ones may follow it), or start anew without the checkpoint"
