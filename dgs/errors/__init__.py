"""The errors that dgs raises on purpose: each says what is wrong, where, and what to do.

::

    DgsError
    ├── UsageError               exit 2   a flag or argument that makes no sense
    ├── InvalidError             exit 3   a file, program or plan is wrong
    ├── ResourceError            exit 4   Ray, Java, a port or a directory is not available
    ├── RunError                 exit 5   the run failed
    ├── CheckpointError          exit 6   a checkpoint or log is refused, damaged, or cannot be written
    ├── UserCodeError            exit 1   update, fork, join or emit raised
    └── InternalError            exit 70  a bug in dgs

`families` has these classes; the errors themselves are in `given`, `resources`, `at_run_time` and `recovery`. `nearest`: suggestions.
`as_data`: as JSON. `hidden_values`: secrets. `shortened`: long texts. `calls`: wrong arguments.

Errors carry their data as attributes and build their sentence from them, so that programs get the same facts as people.

>>> error = OutOfOrderError(stream="flights", row=7, ts=10, previous=12)
>>> error.row, error.code, error.exit_code
(7, 'DGS501', 5)
>>> print(error)  # doctest: +ELLIPSIS
stream 'flights', row 7: timestamp 10 comes after 12...
"""

from __future__ import annotations

from dgs.errors.at_run_time import (
    ClosedLogError,
    CodecError,
    ConnectorError,
    FrameGapError,
    NoAnswerError,
    NoStateError,
    OutOfOrderError,
    PredicateError,
    RayLostError,
    ReplayMismatchError,
    SparkQueryError,
    StalledError,
    UnownedTagError,
    UnrepeatableLogError,
    WorkerLostError,
)
from dgs.errors.families import (
    CheckpointError,
    DgsError,
    InternalError,
    InvalidError,
    ResourceError,
    RunError,
    UsageError,
    UserCodeError,
)
from dgs.errors.given import (
    AmbiguousTagError,
    AsymmetricDependenceError,
    InvalidDiagramError,
    InvalidPlanError,
    MalformedRowError,
    MissingInputError,
    NoPlanError,
    NoSuchRunError,
    PlanFileError,
    ProgramError,
    ProgramImportError,
    UnfinishedRunError,
    UnknownColumnError,
)
from dgs.errors.recovery import (
    CheckpointBusyError,
    CheckpointFailedError,
    CheckpointRefusedError,
    CodeChangedError,
    CorruptFileError,
    FencedError,
    IncompatibleCheckpointError,
    SinkChangedError,
    SourceChangedError,
)
from dgs.errors.resources import (
    ChannelUnavailableError,
    JavaMissingError,
    MissingPackageError,
    NoPlaceError,
    OutputUnwritableError,
    OwnedLogError,
    RayRefusedError,
    RayUnavailableError,
    RayUnreachableError,
    SparkUnavailableError,
    SparkUnreachableError,
    SystemRefusalError,
)

__all__ = [
    "AmbiguousTagError", "AsymmetricDependenceError", "ChannelUnavailableError", "CheckpointBusyError",
    "CheckpointError", "CheckpointFailedError", "CheckpointRefusedError", "ClosedLogError",
    "CodeChangedError", "CodecError", "ConnectorError", "CorruptFileError", "DgsError", "FencedError",
    "FrameGapError", "IncompatibleCheckpointError", "InternalError", "InvalidDiagramError", "InvalidError",
    "InvalidPlanError", "JavaMissingError", "MalformedRowError", "MissingInputError", "MissingPackageError",
    "NoAnswerError", "NoPlaceError", "NoPlanError", "NoStateError", "NoSuchRunError", "OutOfOrderError",
    "OutputUnwritableError", "OwnedLogError", "PlanFileError", "PredicateError", "ProgramError",
    "ProgramImportError", "RayLostError", "RayRefusedError", "RayUnavailableError", "RayUnreachableError",
    "ReplayMismatchError", "ResourceError", "RunError", "SinkChangedError", "SourceChangedError",
    "SparkQueryError", "SparkUnavailableError", "SparkUnreachableError", "StalledError", "SystemRefusalError",
    "UnfinishedRunError", "UnknownColumnError", "UnownedTagError", "UnrepeatableLogError", "UsageError",
    "UserCodeError", "WorkerLostError",
]  # fmt: skip

for _name in __all__:
    globals()[_name].__module__ = __name__  # errors are imported from here, and tracebacks name this module
