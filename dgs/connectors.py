"""Connectors of your own, which plan.yaml names: sources of rows, sinks of outputs.

>>> Source.__module__
'dgs.workers.sources.custom_source'
"""

from dgs.errors import ConnectorError
from dgs.model.outputs import OutputBatch
from dgs.workers.sinks.custom_sink import Generation, Sink, ids
from dgs.workers.sources.custom_source import Piece, Source

__all__ = ["ConnectorError", "Generation", "OutputBatch", "Piece", "Sink", "Source", "ids"]
