"""Sources: declared input streams as ordered batches of events. Read in this order.

- `contract`, `rows`: the vocabulary. `pipeline`: a source, made of parts. `opening`: which parts it gets.
- `readers`: files and objects as rows. `shaping`: rows as events in order. `live`: sources that wait for events.
- `custom_source`: sources that users write. `description`: is a source still the same after a resume?
- `sampling`, `first_events`: looks at the input before a run.

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

from dgs.workers.sources.contract import END, EventSource, Reading, SourceContext
from dgs.workers.sources.opening import open_source

__all__ = ["END", "EventSource", "Reading", "SourceContext", "open_source"]
