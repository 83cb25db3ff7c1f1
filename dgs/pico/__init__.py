"""PiCo: one pipeline over a bag, a list or a stream (papers/pico). A pipeline lowers to a `dgs.flow`.

- `operators`, `pipelines`: what users write; `syntax`: the terms it becomes.
- `inference`, `structures`: types and structures, and all mistakes in one pass; `semantics`: the oracle.
- `lowering`, `combining`: the flow that runs it.
"""

from dgs.pico.operators import (
    filter,  # noqa: A004 - the usual name
    first,
    flat_map,
    fold_reduce,
    from_csv,
    from_lines,
    from_stream,
    join_fold_reduce,
    map,  # noqa: A004 - the paper's name
    p,
    reduce,
    second,
    to_jsonl,
    tumbling,
    w,
    w_p,
    window,
)
from dgs.pico.pipelines import Pipeline, iterate, merge, new, pair, to

__all__ = [
    "Pipeline", "filter", "first", "flat_map", "fold_reduce", "from_csv", "from_lines", "from_stream",
    "iterate", "join_fold_reduce", "map", "merge", "new", "p", "pair", "reduce", "second", "to", "to_jsonl",
    "tumbling", "w", "w_p", "window",
]  # fmt: skip
