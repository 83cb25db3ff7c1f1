"""Sinks: where outputs go.

>>> from pathlib import Path
>>> from dgs.job.schema import SinkConfig
>>> sink = open_sink(SinkConfig.model_validate("none"), output_dir=Path(), base_dir=Path(), host=0)
>>> is_central(SinkConfig.model_validate("stdout"))
True
"""

from dgs.workers.sinks.contract import HostSink, Staged
from dgs.workers.sinks.opening import is_central, open_sink
from dgs.workers.sinks.simple_sinks import MemorySink

__all__ = ["HostSink", "MemorySink", "Staged", "is_central", "open_sink"]
