"""The nodes of a Ray cluster that answer. Ray takes half a minute to notice that a machine is cut off; a connection tells at once."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

CONNECT_SECONDS = 1.0
"""The time for the process that manages a node to take a connection. No user code runs in it, so it is not busy."""

Node = Mapping[str, Any]
"""A node as `ray.nodes()` describes it."""


def answers(node: Node) -> bool:
    """Return whether a node is alive as far as Ray knows, and takes a connection."""
    if not node["Alive"]:
        return False
    try:
        socket.create_connection(
            (node["NodeManagerAddress"], node["NodeManagerPort"]), CONNECT_SECONDS
        ).close()
    except OSError:
        return False
    return True


def cpus_of(node: Node) -> int:
    """Return the number of CPUs of a node."""
    return int(node["Resources"].get("CPU", 0))
