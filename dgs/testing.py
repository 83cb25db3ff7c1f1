"""Testing a program as the runtime is tested: simulated runs with crashes, failing disks and networks, in one line of pytest.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dgs.program import Program

if TYPE_CHECKING:
    from workers.campaign import Campaign

__all__ = ["simulate"]


def simulate(
    program: Program | type[Program],
    streams: Mapping[str, Iterable[Any]],
    *,
    seeds: int | Iterable[int] = 100,
    faults: str = "all",
    tolerance: float | None = None,
) -> Campaign:
    """Run a program under random plans, delivery orders and faults; compare every run with the sequential program.

    `streams`: as for `dgs.run`. `seeds`: how many, or which. `faults`: kinds with commas between (crash, disk, network, user, odd),
    `all` or `none`. `tolerance`: by how much floats may differ. Returns what happened. Raises SimulationFailed, an AssertionError
    whose text has the seed, the smallest failing input that was found, and the trace; UsageError for unknown faults.
    """
    from dgs.api.preparing import from_program, prepare
    from dgs.api.simulating import case_of
    from workers.campaign import simulate_seeds
    from workers.faults import fault_kinds

    kinds = fault_kinds(faults)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    prepared = prepare(from_program(program() if isinstance(program, type) else program, streams, {}))

    def replay(seed: int) -> str:
        return f"dgs.testing.simulate(..., seeds=[{seed}], faults={faults!r})"

    return simulate_seeds(case_of(prepared, tolerance=tolerance), chosen, kinds, replay=replay)
