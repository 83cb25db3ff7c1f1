"""Whether anybody listens where a plan file says that Spark is: Spark itself would try for minutes before it says no.

>>> hosts("spark://one:7077,two:7078"), hosts("sc://server/;user_id=me"), hosts("local[*]")
([('one', 7077), ('two', 7078)], [('server', 15002)], [])
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from dgs.config import SparkConfig
from dgs.errors import SparkUnreachableError

PORTS = {"spark": 7077, "sc": 15002}
"""The ports of clusters and of servers of Spark Connect, where none is said."""

ANSWERS_WITHIN = 5.0
"""Seconds that a host has to accept a connection."""


def check_answers(config: SparkConfig) -> None:
    """Raise SparkUnreachableError if nobody listens at the address of the master or the server."""
    setting = "spark.master" if config.remote is None else "spark.remote"
    address = config.master if config.remote is None else config.remote
    problem: OSError | None = None
    for place in hosts(address):
        try:
            socket.create_connection(place, timeout=ANSWERS_WITHIN).close()
        except OSError as error:
            problem = error
        else:
            return
    if problem is not None:
        said = problem.strerror or str(problem)
        raise SparkUnreachableError(address=address, setting=setting, problem=said)


def hosts(address: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in an address; none if it is of another kind: then Spark has to find out."""
    scheme, _, rest = address.partition("://")
    if scheme not in PORTS:
        return []
    try:
        parts = [urlsplit(f"//{part.partition(';')[0]}") for part in rest.split(",")]
        return [(part.hostname, part.port or PORTS[scheme]) for part in parts if part.hostname]
    except ValueError:
        return []
