"""A quick check that Spark's address in a plan file accepts connections: Spark itself would try for minutes.

>>> hosts("spark://one:7077,two:7078"), hosts("sc://server/;user_id=me"), hosts("local[*]")
([('one', 7077), ('two', 7078)], [('server', 15002)], [])
"""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from dgs.errors import SparkUnreachableError
from dgs.job.schema import SparkConfig

PORTS = {"spark": 7077, "sc": 15002}
"""Default ports of clusters and of Spark Connect servers."""

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Environment variables that name a proxy for Spark Connect."""

ANSWERS_WITHIN = 5.0
"""Seconds that a host has to accept a connection."""


def check_answers(config: SparkConfig) -> None:
    """Raise SparkUnreachableError if no host of the master's or the server's address accepts a connection."""
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


def is_on_this_machine(master: str) -> bool:
    """Whether all of Spark runs on this machine: executors of a cluster must reach its driver from elsewhere.

    >>> is_on_this_machine("local[2]"), is_on_this_machine("local-cluster[2,1,1024]"), is_on_this_machine("spark://one:7077")
    (True, True, False)
    """
    return master.startswith("local")


def hosts(address: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in an address; none for an address of another kind or behind a proxy, which only Spark can try."""
    scheme, _, rest = address.partition("://")
    if scheme not in PORTS or (scheme == "sc" and any(os.environ.get(name) for name in PROXIES)):
        return []
    try:
        parts = [urlsplit(f"//{part}") for part in rest.partition(";")[0].split(",")]
        return [(part.hostname, part.port or PORTS[scheme]) for part in parts if part.hostname]
    except ValueError:
        return []
