"""Sources: declared input streams as ordered batches of events.

A source is a chain of small parts: a reader (rows of files, of generators, of Python lists), the mapping of columns to time,
tag and payload, the policy for disorder, and the dealing of rows to the splits of the stream.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> clicks = StreamConfig(id="clicks", tags={"kind": "click"}, source={"memory": "clicks"})
>>> data = {"clicks": [("click", 5, "home"), ("click", 6, "shop")]}
>>> source = open_source(clicks, SourceContext(Program(), memory=data), rank=0, batch_rows=100)
>>> [event.payload for batch in source.read().batches for event in batch.events()]
['home', 'shop']
>>> source.read().frontier == END
True
"""

from dgs.workers.sources.context import SourceContext
from dgs.workers.sources.contract import END, EventSource, Reading
from dgs.workers.sources.opening import open_source

__all__ = ["END", "EventSource", "Reading", "SourceContext", "open_source"]
