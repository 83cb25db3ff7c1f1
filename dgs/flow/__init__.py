"""Typed streaming pipelines: a flow says which order each step may rely on, and compiles to one DGS program.

A flow is a function of edges, one for each stream; `Edge` has the steps. Importing this needs neither NumPy nor Arrow.

- `building`, `steps`, `templates`, `panes`, `clock`: what users write; `definition`: `@flow`.
- `flow_graph`, `edge_types`, `demands`, `flow_checks`, `mistakes`: the graph, the type of each edge, and all mistakes in one pass.
- `denotation`: the meaning of a flow, the oracle.
- `compiling`, `wiring`, `flow_program`, `closing`: the program that runs it.

>>> @flow()
... def totals(numbers: int):
...     return numbers.fold(lambda total, number: total + number, 0)
>>> totals.denote({"numbers": [(1, 10), (2, 20)]})
[30]
"""

from dgs.flow.building import Builder, Edge, merge
from dgs.flow.clock import every, on
from dgs.flow.definition import Flow, flow
from dgs.flow.mistakes import FlowError
from dgs.flow.panes import count, sliding, tumbling
from dgs.flow.steps import Table
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless

__all__ = [
    "Builder", "Edge", "Flow", "FlowError", "KeyedOrdered", "KeyedUnordered", "Stateless", "Table", "count",
    "every", "flow", "merge", "on", "sliding", "tumbling",
]  # fmt: skip
