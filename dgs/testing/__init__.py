"""Tests of programs in one line of pytest, like those of the runtime: random plans, crashes, failing disks and networks.

`check_source` (`source_laws`), `check_sink` (`sink_laws`) and `check_store` (`store_laws`) test your own connectors, also with a
crash at every line of a commit. A broken law raises `LawBroken` (`broken_law`).

>>> from dgs import ALWAYS, Dependence, Program, kind
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> class Sums(Program):
...     depends = Dependence((BARRIER, BARRIER, ALWAYS), (BARRIER, VALUE, ALWAYS))
...     accumulates = (VALUE,)
...     def init(self): return 0
...     def identity(self): return 0
...     def join(self, left, right): return left + right
...     def update(self, state, event, emit):
...         if event.tag.kind == VALUE:
...             return state + event.payload
...         emit(state)
...         return 0
>>> streams = {"barriers": [("barrier", 3, None)], "values": [("value", 1, 10), ("value", 2, 20), ("value", 9, 5)]}
>>> print(simulate(Sums, streams, seeds=20))                                        # doctest: +ELLIPSIS
20 runs gave the sequential outputs: ...
>>> print(run_plans(Sums, streams, 20))                                             # doctest: +ELLIPSIS
20 runs under random plans gave the sequential outputs: ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dgs.model.program import Program
from dgs.semantics.equivalence import OutputsDiffer, assert_equivalent
from dgs.testing.broken_law import LawBroken
from dgs.testing.sink_laws import check_sink
from dgs.testing.source_laws import check_source
from dgs.testing.store_laws import check_store

if TYPE_CHECKING:
    from dgs.flow import Flow
    from dgs.workers.simulated.campaign import Campaign
    from dgs.workers.simulated.case import Case
    from dgs.workers.simulated.random_plans import Trials

__all__ = [
    "LawBroken", "OutputsDiffer", "assert_equivalent", "check_sink", "check_source", "check_store",
    "run_plans", "simulate",
]  # fmt: skip


def simulate(
    program: Program | type[Program] | Flow,
    streams: Mapping[str, Any],
    *,
    seeds: int | Iterable[int] = 100,
    faults: str = "all",
    tolerance: float | None = None,
) -> Campaign:
    """Run a program or a flow under random plans, delivery orders and faults; compare every run with the sequential program.

    `streams`: as for `dgs.run`. `seeds`: their number, or the seeds. `faults`: kinds separated by commas (crash, disk, network, user,
    odd, slow, bounds, exit, sinks, live, clock), `all` or `none`. `tolerance`: the allowed difference of floats. Returns a tally. Raises
    SimulationFailed, an AssertionError with the seed, the smallest failing input found and the end of the story; UsageError for unknown
    faults.
    """
    from dgs.workers.simulated.campaign import simulate_seeds
    from dgs.workers.simulated.faults import fault_kinds

    kinds = fault_kinds(faults)
    chosen = range(seeds) if isinstance(seeds, int) else seeds

    def replay(seed: int) -> str:
        return f"dgs.testing.simulate(..., seeds=[{seed}], faults={faults!r})"

    return simulate_seeds(_case(program, streams, tolerance), chosen, kinds, replay=replay)


def run_plans(
    program: Program | type[Program] | Flow,
    streams: Mapping[str, Any],
    n: int = 50,
    *,
    seed: int = 0,
    tolerance: float | None = None,
) -> Trials:
    """Run a program or a flow under `n` random plans and orders of messages, without faults; compare each run with the sequential program.

    `streams`: as for `dgs.run`. `tolerance`: the allowed difference of floats. Returns a summary. Raises PlanFailed, an
    AssertionError with a small plan and a small input that fail, the first differing outputs, and the seed.
    """
    from dgs.workers.simulated.random_plans import try_plans

    return try_plans(_case(program, streams, tolerance), n, seed)


def _case(
    program: Program | type[Program] | Flow, streams: Mapping[str, Any], tolerance: float | None
) -> Case:
    from dgs.api.preparing import from_program, prepare
    from dgs.api.verifying import case_of
    from dgs.job.python_streams import of_python

    found = of_python(program, streams, "it takes a program or a flow")
    return case_of(
        prepare(from_program(found.program, found.streams or {}, {}, kinds=found.kinds)), tolerance=tolerance
    )
