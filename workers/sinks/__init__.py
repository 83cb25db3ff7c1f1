"""Sinks: places for outputs. Read in this order.

- `contract`: a sink of one host, and the simplest ones. `opening`: opens the sink of a section of `sinks:`, knows its promise about
  repeats, refuses sinks that write where another one writes or a source reads, and has the publisher of committed outputs. `files`,
  `formats`: files per epoch.
- `sqlite_sink` with `sqlite_tables` and `marks`: outputs go out at once.
- `kept_outputs`: outputs that wait, on disk beyond a bound, and lines for a reader of stdout who may be slow.
- `custom_sink`: sinks that users write. `dead_letters`: events that were left out.

>>> from pathlib import Path
>>> from dgs.job.schema import SinkConfig
>>> sink = open_sink(SinkConfig.model_validate("none"), output_dir=Path(), base_dir=Path(), host=0)
>>> is_central(SinkConfig.model_validate("stdout"))
True
"""

from dgs.workers.sinks.contract import HostSink, Staged
from dgs.workers.sinks.opening import is_central, open_sink

__all__ = ["HostSink", "Staged", "is_central", "open_sink"]
