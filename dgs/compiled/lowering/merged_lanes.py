"""The text of a loop over several lanes: it takes the lane whose next event is first, and folds it up to the next event that depends on it.

Only dependent lanes wait for each other. The text is unrolled over the lanes, which are in the order of their ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType

from dgs.compiled.lowering.entries import entry_arrays
from dgs.compiled.lowering.loop_text import MOST_ROUNDS, ROWS, LaneClass, LoopText, loop_text
from dgs.compiled.lowering.method_source import Surroundings
from dgs.compiled.lowering.statements import state_names
from dgs.compiled.lowering.value_types import Refused, Type, joined

MOST_LANES = 16
"""More lanes than these are not merged by compiled code."""
LAST = 2**63 - 1
"""No event may be at this time: it stands for the end of a lane."""
HEAD = (("heads", "io:i8"), ("stops", "in:i8"), ("more", "in:?"))
"""The first arguments: the next row of each lane, where its rows end, and whether another batch follows."""


def merged_text(
    function: FunctionType,
    surroundings: Surroundings,
    lanes: Sequence[LaneClass],
    ordered: Mapping[int, Sequence[int]],
    state: Type,
) -> tuple[LoopText, list[LoopText]]:
    """Return the loop for lanes in the order of their ranks, and that of each lane. `ordered`: which lanes depend on which. Raises Refused."""
    if len(lanes) > MOST_LANES:
        raise Refused(f"{len(lanes)} lanes are not merged by compiled code")
    names = {lane: f"lane{number}" for number, lane in enumerate(dict.fromkeys(lanes))}
    for _ in range(MOST_ROUNDS):
        after, texts = state, {}
        for lane, name in names.items():
            texts[lane] = loop_text(function, surroundings, lane, state, name)
            after = joined(after, texts[lane].state, what="the state")
        if after == state:
            return _assembled(names, [texts[lane] for lane in lanes], lanes, ordered, state), [
                texts[lane] for lane in lanes
            ]
        state = after
    raise Refused("the type of the state changes with every event")


def _assembled(
    functions: Mapping[LaneClass, str],
    texts: Sequence[LoopText],
    lanes: Sequence[LaneClass],
    ordered: Mapping[int, Sequence[int]],
    state: Type,
) -> LoopText:
    entries, scalars = entry_arrays(state), state_names(state)
    shared = [name for name, _ in entries] + scalars
    own = [text.arguments[len(ROWS) : len(text.arguments) - len(entries)] for text in texts]
    columns = [[f"l{n}_{i}" for i in range(len(types))] for n, types in enumerate(own)]
    given = [name for name, _ in HEAD] + [name for names in columns for name in names] + shared
    lines = [
        *dict.fromkeys("@inner\n" + text.text for text in texts),
        f"def loop({', '.join(given)}):",
        "    deviates = False",
    ]
    for n in range(len(lanes)):
        lines += [
            f"    h{n} = heads[{n}]",
            f"    e{n} = stops[{n}]",
            f"    t{n} = {columns[n][0]}[u64(h{n})] if h{n} < e{n} else i64({LAST})",
        ]
    lines += ["    while True:", "        lane = i64(-1)", f"        least = i64({LAST})"]
    for n in range(len(lanes)):
        lines += [f"        if t{n} < least:", f"            lane = i64({n})", f"            least = t{n}"]
    lines += ["        if lane < 0:", "            break"]
    for n, lane in enumerate(lanes):
        lines.append(f"        {'el' if n else ''}if lane == {n}:")
        step = _step(n, functions[lane], columns[n], shared, scalars=scalars, waits_for=ordered.get(n, ()))
        lines += ["            " + line for line in step]
    lines += [f"    heads[{n}] = h{n}" for n in range(len(lanes))]
    lines.append(f"    return {', '.join(['lane', 'deviates', *scalars])}")
    arguments = [of for _, of in HEAD] + [of for types in own for of in types]
    arguments += [f"io:{of}" for _, of in entries]
    sites = tuple(site for text in texts for site in text.sites)
    return LoopText("\n".join(lines) + "\n", tuple(arguments), state, sites)


def _step(
    n: int, name: str, columns: list[str], shared: list[str], *, scalars: list[str], waits_for: Sequence[int]
) -> list[str]:
    """Return the lines that fold a lane up to the next event of a lane that depends on it."""
    lines = [f"bound = i64({LAST})"]
    for other in waits_for:
        bound = f"t{other} + 1" if n < other else f"t{other}"
        lines += [f"if t{other} != {LAST} and {bound} < bound:", f"    bound = {bound}"]
    rows = [f"h{n}", f"first_from({columns[0]}, h{n}, e{n}, bound)"]
    call = f"{name}({', '.join([*rows, *columns, *shared])})"
    return [
        *lines,
        f"before = h{n}",
        f"{', '.join([f'h{n}', 'deviates', *scalars])} = {call}",
        f"if deviates or h{n} == before:",
        "    break",
        f"if h{n} < e{n}:",
        f"    t{n} = {columns[0]}[u64(h{n})]",
        "else:",
        f"    t{n} = i64({LAST})",
        f"    if more[{n}]:",
        "        break",
    ]
