"""What you write to connect dgs with something of your own, and name in plan.yaml: sources of rows.

>>> Source.__module__
'dgs.workers.sources.custom_source'
"""

from dgs.errors import ConnectorError
from dgs.workers.sources.custom_source import Piece, Source

__all__ = ["ConnectorError", "Piece", "Source"]
