"""Flows over an Apache access log: hits of each directory in windows, and the hits since the last 404, which a program counts."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import dgs
from dgs import Emit, Event
from dgs.flow import every, flow, sliding
from dgs.monoids import COUNT

REQUEST = re.compile(r'"(\S+) (\S+) [^"]*" (\d{3}) ')

HIT, MISS = dgs.kind("hit", key=str), dgs.kind("miss", key=str)

Hits = dict[str, int]


class Request(NamedTuple):
    """A request: its method, the first part of its path, and the status of the answer."""

    method: str
    directory: str
    status: int

    @property
    def is_hit(self) -> bool:
        """Whether the request is for a page that exists."""
        return self.method == "GET" and self.status == 200  # noqa: PLR2004 - HTTP's own number

    @property
    def is_miss(self) -> bool:
        """Whether the request is for a page that does not exist."""
        return self.status == 404  # noqa: PLR2004 - HTTP's own number


def parsed(line: str) -> Request:
    """Return the request of a line.

    >>> parsed('10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /blog/a?b HTTP/1.1" 200 1')
    Request(method='GET', directory='blog', status=200)
    """
    found = REQUEST.search(line)
    if found is None:
        message = f"not a line of an access log: {line!r}"
        raise ValueError(message)
    return Request(found[1], found[2].split("?")[0].strip("/").split("/")[0], int(found[3]))


@flow(clock=every(3600))
def hits(log: Any, *, hours: int = 1) -> Any:
    """Hits of each directory in the last hours, at the end of each hour: [end, directory, hits]."""
    requests = log.map(lambda _, line: parsed(line)).filter(lambda _, request: request.is_hit)
    counts = requests.key_by("directory").aggregate(COUNT, over=sliding(3600 * hours))
    return counts.each(lambda directory, n, at: [at, directory, n])


class SinceLastMiss(dgs.Program[Hits, list[Any]]):
    """A miss emits the hits of its directory since the previous miss: [ts, directory, hits]."""

    depends = dgs.Dependence((MISS, MISS, dgs.SAME_KEY), (MISS, HIT, dgs.SAME_KEY))
    accumulates = (HIT,)

    def init(self) -> Hits:
        """Return no hits."""
        return {}

    def identity(self) -> Hits:
        """Return no hits."""
        return {}

    def update(self, state: Hits, event: Event, emit: Emit[list[Any]]) -> Hits:
        """Count a hit; at a miss, emit the hits and reset them."""
        directory = event.tag.key
        if event.tag.kind == HIT:
            state[directory] = state.get(directory, 0) + 1
        else:
            emit([event.ts, directory, state.pop(directory, 0)])
        return state

    def join(self, left: Hits, right: Hits) -> Hits:
        """Add the hits."""
        return {name: left.get(name, 0) + right.get(name, 0) for name in sorted(left.keys() | right.keys())}


@flow()
def since_404(log: Any) -> Any:
    """Hits of a directory between two requests there for a page that does not exist."""
    requests = log.map(lambda _, line: parsed(line)).filter(lambda _, it: it.is_hit or it.is_miss)
    return requests.into(
        SinceLastMiss(),
        tag=lambda _, request: (MISS if request.is_miss else HIT)(request.directory),
        payload=lambda _, __: None,
    )
