"""Connectors of your own, which plan.yaml names: sources of rows, sinks of outputs, stores of checkpoints.

>>> Source.__module__
'dgs.workers.sources.custom_source'
"""

from dgs.errors import CheckpointBusyError, CheckpointFailedError, ConnectorError, FencedError
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import Checkpoint, CheckpointStore, ResumePoint, resume_point
from dgs.workers.sinks.custom_sink import Generation, Sink, ids
from dgs.workers.sinks.files.owned import OutputsChangedError
from dgs.workers.sources.custom_source import Piece, Source

__all__ = [
    "Checkpoint", "CheckpointBusyError", "CheckpointFailedError", "CheckpointStore", "ConnectorError",
    "FencedError", "Generation", "OutputBatch", "OutputsChangedError", "Piece", "ResumePoint", "Sink", "Source",
    "ids", "resume_point",
]  # fmt: skip
