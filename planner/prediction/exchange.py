"""The exchange between hosts under a plan: the streams that each reads, and the events, requests and states that it sends to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from dgs.planner.placement import events_between, readers
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import EVENT_BYTES, Costs
from dgs.planner.prediction.traffic import BATCH_EVENTS, Traffic

MESSAGE_BYTES = 40.0
"""The bytes of a message without its state: a request with its key, or an answer with its positions."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The reading of the hosts, and the messages between them, for the events of one second. `home`: the host of each worker."""

    plan: Plan
    traffic: Mapping[str, Traffic]
    costs: Costs
    home: Mapping[str, int]

    def seconds(self) -> dict[int, float]:
        """Return each host's seconds of reading streams, of dividing them among workers, and of sending or taking events that another host reads.

        A host that reads some splits of a stream reads all of its events, and drops those of the other splits.
        """
        owned: dict[str, dict[int, float]] = {}
        owners: dict[str, set[str]] = {}
        for worker, mine in self.traffic.items():
            for lane in mine.lanes:
                owners.setdefault(lane.stream, set()).add(worker)
                rates = owned.setdefault(lane.stream, {})
                rates[self.home[worker]] = rates.get(self.home[worker], 0.0) + lane.rate
        seconds = defaultdict[int, float](float)
        read, by = defaultdict[str, float](float), defaultdict[str, set[int]](set)
        reading, costs = readers(owned), self.costs
        for stream, rates in owned.items():
            reader, total, source = reading[stream], sum(rates.values()), costs.source_of(stream)
            by[source].add(reader)
            read[source] += total
            seconds[reader] += total * (costs.split if len(owners[stream]) > 1 else 0.0)
            each = (costs.carrying(stream) + costs.message / BATCH_EVENTS) / 2
            for host, rate in rates.items():
                for end in (host, reader) if host != reader else ():
                    seconds[end] += rate * each
        for source, hosts in by.items():
            for host in hosts:
                seconds[host] += read[source] * costs.source(source)
        return seconds

    def bytes(self) -> float:
        """Return the bytes that cross hosts per second: of events, of requests, and of states up and down."""
        streams: dict[str, dict[str, float]] = {}
        for worker, mine in self.traffic.items():
            rates = streams.setdefault(worker, {})
            for lane in mine.lanes:
                rates[lane.stream] = rates.get(lane.stream, 0.0) + lane.rate
        total = events_between(self.home, streams) * EVENT_BYTES
        for node in self.plan.nodes():
            far = sum(self.home[child.id] != self.home[node.id] for child in node.children)
            total += far * self.traffic[node.id].asks * MESSAGE_BYTES
            total += self.states(node) * (MESSAGE_BYTES + self.costs.state_bytes)
        return total

    def states(self, node: PlanNode) -> float:
        """Return the states per second that cross hosts between a worker and its children: up, and if it forks also down."""
        far = [child for child in node.children if self.home[child.id] != self.home[node.id]]
        ways = sum(1 if self.traffic[child.id].accumulates else 2 for child in far)
        return self.traffic[node.id].asks * ways

    def frames(self, node: PlanNode) -> float:
        """Return the frames per second between a worker and its children on other hosts: one there and one back for all children of a host.

        The partial states of all windows in one round, and in one reading of the child's sources, travel together.
        """
        mine, frames = self.traffic[node.id], dict[int, float]()
        for child in node.children:
            host, needed = self.home[child.id], 2 * mine.asks
            if self.traffic[child.id].accumulates:
                readings = sum(self.traffic[one.id].rate for one in child.walk()) / BATCH_EVENTS
                needed = min(mine.asks, max(readings, mine.rounds))
            frames[host] = max(frames.get(host, 0.0), needed)
        return sum(frames.values()) - frames.get(self.home[node.id], 0.0)
