"""The text of a loop over the columns of a lane: one function for all lanes of a class.

The loop stops before an event that deviates, with the state and the outputs before that event. Every name of the text is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType

from dgs.compiled.lowering.compared_texts import Test
from dgs.compiled.lowering.entries import NoEntries, entry_arrays
from dgs.compiled.lowering.expressions import Payload, Seen
from dgs.compiled.lowering.method_source import Surroundings
from dgs.compiled.lowering.statements import Lowering, Site, Sites, partial_names, state_names
from dgs.compiled.lowering.value_types import BOOL, NUMBERS, Refused, Type, joined, scalars_of

MOST_ROUNDS = 8
"""The most times that a state is widened."""

THERE = "_there"
"""The suffix of the column that says which values of another column are not null."""
ROWS = ("int", "int")
"""The types of the first arguments of a lane's loop: the rows where it starts and stops."""


@dataclass(frozen=True, slots=True)
class LaneClass:
    """The facts about a lane that decide the text of its loop.

    `fields`: the types of named columns; without names, `payload` is the type of the only column. `has_codes`: whether its events
    have several tags. `stream`: None if the update does not look at it.
    """

    kinds: tuple[str, ...]
    payload: Type | None
    fields: tuple[tuple[str, Type], ...] | None
    has_codes: bool
    has_keys: bool
    stream: str | None = None

    @property
    def seen(self) -> Payload:
        """The type of payloads, or the types of named columns."""
        return self.payload if self.fields is None else dict(self.fields)

    @property
    def numbers(self) -> dict[str, Type]:
        """The types of the columns of payloads that hold numbers, by their names in the text. Those with nulls have a second one."""
        columns = (
            [("payload", self.payload)]
            if self.fields is None
            else [(f"field{number}", of) for number, (_, of) in enumerate(self.fields)]
        )
        found: dict[str, Type] = {}
        for name, of in columns:
            if of is not None and of.is_optional:
                found |= {name + THERE: BOOL, name: of.parts[0]}
            elif of in NUMBERS:
                found[name] = of
        return found


@dataclass(frozen=True, slots=True)
class LoopText:
    """The text of a loop. `arguments`: the types of its arguments in order, before the scalars of the state.

    `state`: the type of the states that it takes and returns. `reads`: the columns of payloads that it reads. `tests`: its tests
    of other columns, and of keys.
    """

    text: str
    arguments: tuple[str, ...]
    state: Type
    sites: tuple[Site, ...]
    reads: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()


def loop_text(
    function: FunctionType,
    surroundings: Surroundings,
    lane: LaneClass,
    state: Type,
    name: str = "loop",
    *,
    children: int = 0,
) -> LoopText:
    """Return the loop for a class of lanes, from a state of a type that the state joins to. Raises Refused.

    `children`: the number of partial states to join into the state before each event, if they exist.
    """
    if children and state.name == "dict":
        raise Refused("dicts are not joined by compiled code")
    for _ in range(MOST_ROUNDS):
        sites, bodies, after = Sites(are_some=len(lane.kinds) > 1), [], state
        for number, kind in enumerate(lane.kinds):
            seen = Seen(kind, lane.stream, lane.seen, lane.has_keys)
            depth, prefix = 2 + (len(lane.kinds) > 1), f"t{number}_"
            before = len(sites.found)
            try:
                body = Lowering(
                    function, surroundings, seen, state, sites, depth=depth, prefix=prefix, children=children
                )
            except NoEntries:
                del sites.found[before:]
                bodies.append(["    " * depth + line for line in ("deviates = True", "at = i", "break")])
            else:
                bodies.append(body.lines)
                after = joined(after, body.returned, what="the state")
        if after == state:
            return _assembled(name, lane, state, sites, bodies, children=children)
        state = after
    raise Refused("the type of the state changes with every event")


def _assembled(
    name: str, lane: LaneClass, state: Type, every: Sites, bodies: list[list[str]], *, children: int
) -> LoopText:
    """Return the text of a loop over the events of a lane: it loads the columns, and runs the body for the event's kind."""
    entries, sites = entry_arrays(state), every.found
    reads = tuple(
        one for one in lane.numbers if any(f"{one}_here" in line for body in bodies for line in body)
    )
    inputs, loads = _inputs(lane, reads, len(every.tests), has_entries=bool(entries))
    for child in range(children):
        partial = [(f"there{child}", "?"), *zip(partial_names(state, child), scalars_of(state), strict=True)]
        inputs += partial
        loads += [f"        {column}_here = {column}[u]" for column, _ in partial]
    outputs = [(f"o{site.number}_{i}", of) for site in sites for i, of in enumerate(site.columns)]
    some = [site.number for site in sites if not site.is_always]
    columns = [*inputs, ("counts", "i8"), *outputs, *((f"r{number}", "i8") for number in some)]
    states = state_names(state)
    columns += entries
    lines = [f"def {name}({', '.join(['start', 'stop', *(column for column, _ in columns), *states])}):"]
    lines += [
        "    at = stop",
        "    deviates = False",
        *(f"    c{number} = counts[{number}]" for number in some),
    ]
    lines += ["    for i in range(start, stop):", "        u = u64(i)", *loads]
    if len(bodies) == 1:
        lines += bodies[0]
    else:
        lines.append("        kind = kinds[u64(codes[u])]")
        for number, body in enumerate(bodies):
            lines += [f"        {'el' if number else ''}if kind == {number}:", *body]
    lines += _counted(some)
    lines.append(f"    return {', '.join(['at', 'deviates', *states])}")
    read = {column for column, _ in inputs}
    changed = {column for column, _ in entries}
    arguments = tuple(
        f"{'in:' if column in read else 'io:' if column in changed else ''}{of}" for column, of in columns
    )
    return LoopText(
        "\n".join(lines) + "\n", (*ROWS, *arguments), state, tuple(sites), reads, tuple(every.tests)
    )


def _counted(some: Sequence[int]) -> list[str]:
    """Return the lines that keep the counts of sites that not every event reaches, without the event that deviates."""
    lines = ["    if deviates:"] if some else []
    for number in some:
        lines.append(f"        if c{number} > 0 and r{number}[u64(c{number} - 1)] == at:")
        lines.append(f"            c{number} -= 1")
    return lines + [f"    counts[{number}] = c{number}" for number in some]


def _inputs(
    lane: LaneClass, reads: Sequence[str], tests: int, *, has_entries: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the input columns, and the lines that read them. `has_entries`: entries of a dict are read by the events' slots."""
    columns, loads = [("ts", "i8")], ["        ts_here = ts[u]"]
    if len(lane.kinds) > 1 or (has_entries and lane.has_codes):
        columns.append(("codes", "i4"))
    if len(lane.kinds) > 1:
        columns.append(("kinds", "i8"))
    for column in reads:
        columns.append((column, scalars_of(lane.numbers[column])[0]))
        loads.append(f"        {column}_here = {column}[u]")
    for number in range(tests):
        columns.append((f"test{number}", "?"))
        loads.append(f"        test{number}_here = test{number}[u]")
    if has_entries:
        columns += [("slots", "i8"), ("base", "i8")]
        loads.append(f"        k = u64(slots[{'u64(codes[u])' if lane.has_codes else 'u64(0)'}])")
    return columns, loads
