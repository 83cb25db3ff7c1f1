"""The model of a plan's throughput in events per second, and of its bound.

A worker spends its time on its own events, on the stretches that they are cut into, and on synchronisations. It synchronises with
each child for each event that needs the children's states, and for each request from above. There are three bounds:

- a *host* does the work of its workers one at a time;
- a *machine* has a limited number of cores for its hosts;
- a *worker* whose children need forks waits for them and for messages in transit, and they wait for the worker. So these times add up on
  the path from the root down. No worker of an accumulating subtree waits.

The seconds that the busiest of these needs for the events of one second bound the throughput.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dgs.model.program import Program
from dgs.planner.placement import assign_hosts
from dgs.planner.plan import Plan, PlanNode
from dgs.planner.prediction.costs import (
    COLD,
    COLD_CHILDREN,
    COOLING,
    COOLING_ALONE,
    CORRECTIONS,
    FIRST_EVENTS,
    IMPORTING,
    INTERPRETED_FIRST,
    LARGE_RUN,
    LEAST_REST,
    LOADING,
    NEW_BYTES,
    SWITCH,
    Costs,
)
from dgs.planner.prediction.exchange import Exchange
from dgs.planner.prediction.latency import Latency, latency
from dgs.planner.prediction.traffic import (
    BATCH_EVENTS,
    Between,
    Traffic,
    partial_states,
    pieces,
    traffic,
)
from dgs.planner.topology import Topology, kind_rates, of_nodes

SHORT_LOOP = 64.0
"""Shorter stretches of lanes that depend on each other are merged event by event, if there is no `update_batch`."""

SHORT_STRETCH = 16.0
"""The same if there is an `update_batch`."""

AT_ONCE = 2.0
"""The cost of a partial state, in units of `merge`, if many windows are folded at once by `update_windows` or a compiled `update`."""


@dataclass(frozen=True, slots=True)
class Busiest:
    """The worker with the most work. `share`: the part of its time for which it works at the predicted throughput.

    `events`, `joins`: its own events, and its synchronisations with its children, per second at that throughput.
    """

    worker: str
    share: float
    events: float
    joins: float

    def __str__(self) -> str:
        joins, processes = f"joins {self.joins:,.0f} times", f"processes {self.events:,.0f} events"
        return f"{self.worker} {joins if self.joins else processes} a second"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a plan: `throughput` in events per second (0 without events), and `limit`, its bound as a clause.

    `synchronised`: the share of events that need the states of other workers. `bytes_between`: bytes between hosts per event, for events
    that another host reads and for synchronisations. `busiest`: the worker with the most work.
    `is_waiting`: the bound is that workers wait for each other.
    """

    throughput: float
    limit: str
    synchronised: float
    bytes_between: float
    busiest: Busiest
    is_waiting: bool


class Predictor:
    """Predicts plans of one program on one topology, which has the host processes and the cores that they share."""

    def __init__(
        self,
        program: Program,
        topology: Topology,
        costs: Costs,
        *,
        are_new: bool | None = None,
        loading: float | None = None,
    ) -> None:
        """`are_new`: the hosts are new processes, which takes a while; by default several are. `loading`: the seconds of loading machine code."""
        self._program, self._topology, self._costs = program, topology, costs
        are_hosts = topology.hosts > 1 if are_new is None else are_new
        is_imported = are_hosts or LARGE_RUN <= topology.events < math.inf
        if loading is None:
            loading = LOADING if is_imported else IMPORTING
        self._run = _Run(topology.events, NEW_BYTES if are_hosts else 0.0, loading)
        self._between = Between(program)

    def predict(self, plan: Plan, home: Mapping[str, int] | None = None) -> Prediction:
        """Return the prediction for a plan. `home`: the host of each worker (default: the choice of a run)."""
        home, of = self._deployed(plan, home)
        model = _Model(plan, of, self._costs, home, self._run)
        return model.prediction(self._topology.cpus)

    def latency(self, plan: Plan, home: Mapping[str, int] | None = None) -> Latency:
        """Return the latency of a plan: see `dgs.planner.prediction.latency`. `home`: as for `predict`."""
        home, of = self._deployed(plan, home)
        return latency(plan, of, self._costs, home)

    def corrected(self, plan: Plan, updates: float, joins: float) -> Costs:
        """Return the costs with which the events of one second take `updates` seconds under a plan, and the user's forks and joins `joins` seconds."""
        home, of = self._deployed(plan, None)
        costs = self._costs
        for _ in range(CORRECTIONS):
            model = _Model(plan, of, costs, home, self._run)
            folding, asking, user = map(sum, zip(*map(model.parts, plan.nodes()), strict=True))
            rest = max(updates - asking, LEAST_REST * updates)
            costs = costs.scaled(
                events=rest / folding if folding else 1.0, joins=joins / user if user else 1.0
            )
        return costs

    def _deployed(
        self, plan: Plan, home: Mapping[str, int] | None
    ) -> tuple[Mapping[str, int], Mapping[str, Traffic]]:
        streams = self._topology.streams
        rates = kind_rates(plan, streams)
        home = home or assign_hosts(plan, self._topology.hosts, of_nodes(plan, rates))
        return home, traffic(plan, self._program, rates, self._between)


class _Run(NamedTuple):
    """A run of so many events. `new_bytes`: of memory that each of the first events of a host takes; `loading`: the seconds of loading machine code."""

    events: float
    new_bytes: float
    loading: float


class _Model:
    """The model of one plan. `own`: each worker's seconds of work for the events of one second."""

    def __init__(
        self, plan: Plan, of: Mapping[str, Traffic], costs: Costs, home: Mapping[str, int], run: _Run
    ) -> None:
        self._plan, self._traffic, self._costs, self._home, self._run = plan, of, costs, home, run
        self._exchange = Exchange(plan, of, costs, home)
        self._rate = sum(one.rate for one in of.values())
        # the events of the whole run, at these rates
        self._seconds = run.events / self._rate if self._rate else math.inf
        self._own = {node.id: self._work(node) for node in plan.nodes()}
        cold = self._cold()
        self._own = {worker: work + cold[worker] for worker, work in self._own.items()}

    def prediction(self, cores: int) -> Prediction:
        rate, taken = self._rate, dict.fromkeys(self._home.values(), 0.0)
        for worker, one in self._traffic.items():
            taken[self._home[worker]] += one.rate
        first = FIRST_EVENTS / self._seconds if self._seconds else 0.0
        hosts = {
            host: self._run.new_bytes * self._costs.byte * min(mine, first) for host, mine in taken.items()
        }
        begun = max(hosts.values())
        for worker, work in self._own.items():
            hosts[self._home[worker]] += work
        for host, work in self._exchange.seconds().items():
            hosts[host] = hosts.get(host, 0.0) + work
        busiest = max(hosts, key=lambda host: hosts[host])
        bounds = [
            (hosts[busiest], f"host {busiest} is always busy"),
            (sum(hosts.values()) / cores, f"{cores} cores are always busy"),
            (self._path() + begun, self._blame()),
        ]
        seconds, limit = max(bounds, key=lambda bound: bound[0])
        if not rate:
            limit = "no event comes at these rates"
        between = self._exchange.bytes()
        waits = sum(lane.rate for one in self._traffic.values() for lane in one.lanes if lane.synchronises)
        return Prediction(
            throughput=rate / seconds if seconds else 0.0,
            limit=limit,
            synchronised=waits / rate if rate else 0.0,
            bytes_between=between / rate if rate else 0.0,
            busiest=self._busiest(seconds),
            is_waiting=bool(rate) and limit == bounds[-1][1],
        )

    def _busiest(self, seconds: float) -> Busiest:
        """Return the worker with the most work. `seconds`: the time for the events of one second."""
        worker = max(self._own, key=lambda name: self._own[name])
        mine, scale = self._traffic[worker], 1 / seconds if seconds else 0.0
        return Busiest(worker, self._own[worker] * scale, mine.rate * scale, mine.asks * scale)

    def _work(self, node: PlanNode) -> float:
        """Return the seconds that a worker works for the events of one second."""
        states = self._exchange.states(node) * self._costs.state
        sent = self._exchange.frames(node) * self._costs.message + states
        return sum(self.parts(node)) + sent

    def _cold(self) -> dict[str, float]:
        """Return the seconds that each worker takes more for synchronisations since other work between them has emptied the caches."""
        hosts = dict.fromkeys(self._home.values(), 0.0)
        for worker, work in self._own.items():
            hosts[self._home[worker]] += work
        cooling = COOLING if len(hosts) > 1 else COOLING_ALONE
        more = dict.fromkeys(self._own, 0.0)
        for node in self._plan.nodes():
            mine = self._traffic[node.id]
            count = mine.asks if node.children else mine.asked
            if mine.accumulates or not count:
                continue
            asking = self.parts(node)[1] * min(1.0, COLD_CHILDREN / max(1, len(node.children)))
            ours = asking + self._exchange.frames(node) * self._costs.message
            ours += min(count, pieces(mine)) * self._costs.piece
            more[node.id] = ours * (COLD - 1) * -math.expm1(-hosts[self._home[node.id]] / count / cooling)
        return more

    def parts(self, node: PlanNode) -> tuple[float, float, float]:
        """Return the seconds of folding, of asking children, and of the user's forks and joins, for the events of one second."""
        mine, costs, children = self._traffic[node.id], self._costs, len(node.children)
        forks = [child for child in node.children if not self._traffic[child.id].accumulates]
        if forks:  # the worker folds one event, or answers one request, with the whole state
            asking = mine.asks * (costs.piece + costs.synchronisation * children)
        else:
            asking = (mine.asks * costs.merge + mine.rounds * costs.synchronisation) * children
        user = costs.join * children + costs.fork * max(0, len(forks) - 1)
        return self._folding(mine, is_leaf=not children), asking, mine.asks * user

    def _folding(self, mine: Traffic, *, is_leaf: bool) -> float:
        """Return the seconds of folding, either merged event by event or stretch by stretch, with columns for long stretches.

        A worker that accumulates folds whole windows at once; they are counted as requests. A single worker also folds windows if one lane
        ends those of all others: it joins each window with the state. A worker with children alternates between its own stretches and its
        synchronisations.
        """
        costs = self._costs
        merged = stretched = 0.0
        for lane in mine.lanes:
            scalar = costs.event(str(lane.kind))
            ends_windows = mine.windows and not lane.accumulates
            column = None if ends_windows else costs.column(str(lane.kind))
            long = 0.0 if column is None else lane.share_of_long
            each = scalar if column is None else scalar + long * (min(scalar, column) - scalar)
            cuts = lane.stretches
            if mine.accumulates and mine.asked:
                cuts = min(cuts, max(mine.asked_rounds, lane.rate / BATCH_EVENTS))
            if ends_windows:
                stretched += lane.rate * mine.windows * (costs.join + costs.merge)
            stretched += lane.rate * (each + costs.read) + cuts * (
                costs.stretch + long * costs.column_call(str(lane.kind))
            )
            merged += lane.rate * (scalar + costs.read + costs.merge)
        folding = min(merged, stretched) if len(mine.lanes) > 1 and is_leaf else stretched
        folding += partial_states(mine) * (AT_ONCE * costs.merge if mine.folds_windows else costs.window)
        turns = 0.0 if is_leaf else sum(lane.stretches for lane in mine.lanes if not lane.synchronises)
        folding = self._compiled(mine, folding, turns)
        return folding + turns * costs.synchronisation + pieces(mine) * costs.piece

    def _compiled(self, mine: Traffic, interpreted: float, turns: float) -> float:
        """Return the seconds of folding where `update` is compiled after the first events, if that is cheaper and loading it pays.

        One call, or one per turn (`turns`), folds all lanes between two requests that take the state, or two of its own synchronisations.
        Events that synchronise are interpreted. If other kinds are interpreted, too, each stretch has a call of its own, and a release
        that is merged event by event is interpreted as a whole. Beside an `update_batch`, only lanes that alternate densely are compiled.
        """
        costs, seconds = self._costs, 0.0
        compiled = [lane for lane in mine.lanes if costs.compiled(str(lane.kind)) is not None]
        if not mine.rate or not compiled or interpreted * self._seconds <= self._run.loading:
            return interpreted
        stretches = sum(lane.stretches for lane in mine.lanes)
        if costs.columns is not None and (mine.asked or stretches * SHORT_STRETCH <= mine.rate):
            return interpreted
        is_mixed = any(costs.compiled(str(lane.kind)) is None for lane in mine.lanes if not lane.synchronises)
        if is_mixed and stretches * SHORT_LOOP > mine.rate:
            return interpreted
        for lane in mine.lanes:
            kind = str(lane.kind)
            each = None if lane.synchronises else costs.compiled(kind)
            seconds += lane.rate * ((costs.event(kind) if each is None else each) + costs.read)
        cuts = pieces(mine) + turns + sum(lane.rate for lane in mine.lanes if lane.synchronises)
        if is_mixed:
            cuts += sum(lane.stretches for lane in compiled)
        seconds += (partial_states(mine) * AT_ONCE + stretches * SWITCH) * costs.merge
        calls = max(mine.rate / BATCH_EVENTS, cuts, mine.window_calls)
        # few events need few parts of the state
        each_once = sum(lane.rate * costs.event(str(lane.kind)) for lane in mine.lanes)
        translated = min(calls * costs.compiled_state, each_once)
        seconds += calls * (costs.stretch + costs.call + costs.compiled_call) + translated
        first = min(1.0, INTERPRETED_FIRST / (mine.rate * self._seconds))
        return first * interpreted + (1 - first) * min(
            interpreted, seconds + self._run.loading / self._seconds
        )

    def _path(self) -> float:
        """Return the seconds for the events of one second on the path of workers that wait for each other."""
        waits: dict[str, float] = {}
        below: dict[str, dict[int, float]] = {}
        for node in reversed(list(self._plan.nodes())):
            work = {self._home[node.id]: self._own[node.id]}
            for child in node.children:
                for host, seconds in below[child.id].items():
                    work[host] = work.get(host, 0.0) + seconds
            below[node.id] = work
            beside = max((waits[child.id] for child in node.children), default=0.0)
            if all(self._traffic[child.id].accumulates for child in node.children):
                waits[node.id] = max(self._own[node.id], beside)
            else:
                rest = {
                    host: s - (self._own[node.id] if host == self._home[node.id] else 0.0)
                    for host, s in work.items()
                }
                waits[node.id] = self._own[node.id] + self._hops(node) + max(beside, *rest.values())
        return waits[self._plan.root.id]

    def _hops(self, node: PlanNode) -> float:
        """Return the seconds in transit of messages of a worker's own synchronisations: there and back, level by level."""
        own = sum(lane.rate for lane in self._traffic[node.id].lanes if lane.synchronises)
        return own * 2 * self._costs.hop * self._levels(node)

    def _levels(self, node: PlanNode) -> int:
        """Return the largest number of changes of host on a path down."""
        most, stack = 0, [(node, 0)]
        while stack:
            one, count = stack.pop()
            most = max(most, count)
            stack += [(child, count + (self._home[child.id] != self._home[one.id])) for child in one.children]
        return most

    def _blame(self) -> str:
        worst = max(self._plan.nodes(), key=lambda node: self._traffic[node.id].asks * len(node.children))
        asks = self._traffic[worst.id].asks
        if not asks:
            return "its workers wait for each other"
        return (
            f"{worst.id} joins its {len(worst.children)} children for {asks / self._rate:.2g} of the events"
        )
