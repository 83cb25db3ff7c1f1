"""Checkpoints: what they are, where they are kept, and how a run begins from one."""

from dgs.workers.recovery.checkpoint import (
    BEGINNING,
    Checkpoint,
    CheckpointStore,
    Record,
    ResumePoint,
    StagedFile,
    StagedOutput,
)

__all__ = [
    "BEGINNING",
    "Checkpoint",
    "CheckpointStore",
    "Record",
    "ResumePoint",
    "StagedFile",
    "StagedOutput",
]
