"""The text of a loop over windows of a lane: it folds the events of each window into the window's own state, in place in columns of states.

This is `update_windows` derived from `update`. The kinds of the lane emit nothing.
"""

from __future__ import annotations

from types import FunctionType

from dgs.compiled.lowering.loop_text import ROWS, LaneClass, LoopText, loop_text
from dgs.compiled.lowering.method_source import Surroundings
from dgs.compiled.lowering.statements import state_names
from dgs.compiled.lowering.value_types import NONE, Refused, Type, scalars_of

BOUNDS = (("starts", "in:i8"), ("stops", "in:i8"))
"""The first columns: the rows where each window starts and stops."""


def windows_text(
    function: FunctionType, surroundings: Surroundings, lane: LaneClass, state: Type
) -> tuple[LoopText, LoopText]:
    """Return the loop over windows of a lane, and the loop over the lane. Raises Refused."""
    text = loop_text(function, surroundings, lane, state, "lane")
    if text.sites or text.state.name == "dict":
        raise Refused(
            "windows are folded at once if their events emit nothing, and their states are no dicts"
        )
    scalars, own = state_names(text.state), text.arguments[len(ROWS) :]
    columns = [f"l{number}" for number in range(len(own))]
    parts = [f"w{number}" for number in range(len(scalars))]
    given = ["first", "last", *(name for name, _ in BOUNDS), *parts, *columns]
    rows, states = ["starts[u64(w)]", "stops[u64(w)]"], [f"{part}[u64(w)]" for part in parts]
    lines = [
        f"@inner\n{text.text}",
        f"def loop({', '.join(given)}):",
        "    at = last",
        "    deviates = False",
        "    for w in range(first, last):",
        f"        {', '.join(['row', 'deviates', *scalars])} = lane({', '.join([*rows, *columns, *states])})",
        "        if deviates:",
        "            at = w",
        "            break",
        *(f"        {state} = {scalar}" for state, scalar in zip(states, scalars, strict=True)),
        "    return at, deviates",
    ]
    written = tuple(f"io:{of}" for of in scalars_of(text.state))
    arguments = (*ROWS, *(of for _, of in BOUNDS), *written, *own)
    return LoopText("\n".join(lines) + "\n", arguments, NONE, ()), text
