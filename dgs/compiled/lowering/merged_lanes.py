"""The text of a loop over several lanes: it takes the lane with the first next event, and folds it up to the next event that depends on it.

Only dependent lanes wait for each other. The text is unrolled over the lanes, which are in the order of their ranks. Events at the
same time come in this order, those of one stream in the order of their numbers (`seq`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import NamedTuple

from dgs.compiled.lowering.entries import entry_arrays
from dgs.compiled.lowering.loop_text import MOST_ROUNDS, ROWS, LaneClass, LoopText, loop_text
from dgs.compiled.lowering.method_source import Surroundings
from dgs.compiled.lowering.statements import state_names
from dgs.compiled.lowering.value_types import Refused, Type, joined


class Order(NamedTuple):
    """The order of a lane: the lanes that it depends on, and other lanes of its stream, which have the same rank."""

    waits_for: tuple[int, ...]
    twins: tuple[int, ...]


MOST_LANES = 16
"""The most lanes that compiled code merges."""
LAST = 2**63 - 1
"""No event may be at this time, which marks the end of a lane."""
HEAD = (("heads", "io:i8"), ("stops", "in:i8"), ("more", "in:?"))
"""The first arguments: the next row of each lane, where its rows end, and whether another batch follows. Then come those for lanes with twins."""


def merged_text(
    function: FunctionType,
    surroundings: Surroundings,
    lanes: Sequence[LaneClass],
    orders: Sequence[Order],
    state: Type,
) -> tuple[LoopText, list[LoopText]]:
    """Return the loop for lanes in the order of their ranks, and the loop of each lane. Raises Refused."""
    if len(lanes) > MOST_LANES:
        raise Refused(f"{len(lanes)} lanes are not merged by compiled code")
    names = {lane: f"lane{number}" for number, lane in enumerate(dict.fromkeys(lanes))}
    for _ in range(MOST_ROUNDS):
        after, texts = state, {}
        for lane, name in names.items():
            texts[lane] = loop_text(function, surroundings, lane, state, name)
            after = joined(after, texts[lane].state, what="the state")
        if after == state:
            each = [texts[lane] for lane in lanes]
            return _assembled([names[lane] for lane in lanes], each, orders, state), each
        state = after
    raise Refused("the type of the state changes with every event")


def _assembled(
    functions: Sequence[str], texts: Sequence[LoopText], orders: Sequence[Order], state: Type
) -> LoopText:
    """Return the text of a loop that merges lanes by time and calls the function of the lane with the next event."""
    entries, scalars = entry_arrays(state), state_names(state)
    shared = [name for name, _ in entries] + scalars
    own = [text.arguments[len(ROWS) : len(text.arguments) - len(entries)] for text in texts]
    columns = [[f"l{n}_{i}" for i in range(len(types))] for n, types in enumerate(own)]
    numbers = [f"q{n}" for n, order in enumerate(orders) if order.twins]
    given = [name for name, _ in HEAD] + numbers + [name for names in columns for name in names] + shared
    lines = [
        *dict.fromkeys("@inner\n" + text.text for text in texts),
        f"def loop({', '.join(given)}):",
        "    deviates = False",
    ]
    for n in range(len(texts)):
        lines += [
            f"    h{n} = heads[{n}]",
            f"    e{n} = stops[{n}]",
            f"    t{n} = {columns[n][0]}[u64(h{n})] if h{n} < e{n} else i64({LAST})",
        ]
    lines += ["    while True:", "        lane = i64(-1)", f"        least = i64({LAST})"]
    for n in range(len(texts)):
        lines += [f"        if t{n} < least:", f"            lane = i64({n})", f"            least = t{n}"]
        for twin in (twin for twin in orders[n].twins if twin < n):
            lines += [
                f"        elif lane == {twin} and t{n} == least:",
                f"            if {_is_before(n, twin)}:",
            ]
            lines += [f"                lane = i64({n})"]
    lines += ["        if lane < 0:", "            break"]
    for n, function in enumerate(functions):
        lines.append(f"        {'el' if n else ''}if lane == {n}:")
        step = _step(n, function, columns[n], shared, scalars=scalars, order=orders[n])
        lines += ["            " + line for line in step]
    lines += [f"    heads[{n}] = h{n}" for n in range(len(texts))]
    lines.append(f"    return {', '.join(['lane', 'deviates', *scalars])}")
    arguments = [of for _, of in HEAD] + ["in:i8"] * len(numbers) + [of for types in own for of in types]
    arguments += [f"io:{of}" for _, of in entries]
    sites = tuple(site for text in texts for site in text.sites)
    return LoopText("\n".join(lines) + "\n", tuple(arguments), state, sites)


def _is_before(n: int, twin: int) -> str:
    """Return whether the next event of a lane has a lower number than that of another lane of its stream."""
    return f"q{n}[u64(h{n})] < q{twin}[u64(h{twin})]"


def _step(
    n: int, name: str, columns: list[str], shared: list[str], *, scalars: list[str], order: Order
) -> list[str]:
    """Return the lines that fold a lane up to the next event of a lane that depends on it."""
    times, twins = columns[0], [other for other in order.waits_for if other in order.twins]
    lines = [f"bound = i64({LAST})"]
    for other in order.waits_for:
        bound = f"t{other} + 1" if n < other or other in twins else f"t{other}"
        lines += [f"if t{other} != {LAST} and {bound} < bound:", f"    bound = {bound}"]
    lines += [f"stop = first_from({times}, h{n}, e{n}, bound)"]
    for other in twins:
        at_once = f"first_from({times}, h{n}, stop, t{other})"
        lines += [f"if t{other} != {LAST}:", f"    same = {at_once}"]
        lines += [f"    stop = first_from(q{n}, same, stop, q{other}[u64(h{other})])"]
    call = f"{name}({', '.join([f'h{n}', 'stop', *columns, *shared])})"
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
