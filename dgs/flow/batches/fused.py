r"""Steps without state as one generated function, like a loop written by hand: without a call of ours for each item.

The text of the function depends on the kinds of the steps only; the user's functions and tables are bound by name.

>>> from dgs.flow.building import Builder
>>> from dgs.flow.wiring import Wiring
>>> builder = Builder("words", None)
>>> lines = builder.source("lines")
>>> words = lines.flat_map(lambda _, line: line.split()).filter(lambda _, word: word != "b")
>>> fused, out = Fused(Wiring(builder.finished(words)), {}), []
>>> fused.of_source(0)([7, 8], ["a b", "c"], [0, 1], None, out.append, out.append, None, None)
>>> out
['a', 0, 'c', 1]
>>> print("\n".join(fused.text(0, is_source=True).splitlines()[2:6]))
    for at, v0, row in zip(times, values, rows):
        for v1 in function_1(k0, v0):
            if function_2(k0, v1):
                emit(v1); note(row)
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from dgs.errors.raised import RAISED
from dgs.flow import steps
from dgs.flow.closing import Closer
from dgs.flow.wiring import OUT, Wiring
from dgs.model.key_forms import PLAIN
from dgs.monoids import Count, Sum

DEEPEST = 12
"""The nested steps before one becomes a separate function: Python allows 20 nested loops."""

MAY_NOT_BE_PLAIN = (
    "type({k}) is not str and type({k}) is not int and "
    "(type({k}) is not tuple or len({k}) != 2 or type({k}[0]) not in PLAIN or type({k}[1]) not in PLAIN)"
)
"""A cheap test that a key is neither a text nor an integer nor a pair of them."""

Run = Callable[..., None]


class Fused:
    """The generated functions of a graph: of the steps after each node, up to the nodes that keep something.

    `of_source(number)`: takes times, values, rows, `take`, `emit`, `note`, `parts_of`, `noting`. `behind(number)`: takes items (key,
    value, time), `take`, `emit`, `parts_of`, `noting`. `take(node, input, key, value, at)` gets items for nodes without a closer,
    `emit(value)` outputs and `note(row)` their rows; `parts_of(node, input)` returns the parts of the block by key, and `noting(node,
    input)` the function for keys that may not be plain.
    """

    def __init__(self, wiring: Wiring, closers: Mapping[int, Closer]) -> None:
        self._wiring, self._closers = wiring, closers
        self._made: dict[tuple[int, bool], Run] = {}

    def of_source(self, number: int) -> Run:
        """Return the function of the items of a stream."""
        return self._function(number, is_source=True)

    def behind(self, number: int) -> Run:
        """Return the function of the items of a node."""
        return self._function(number, is_source=False)

    def text(self, number: int, *, is_source: bool) -> str:
        """Return the text of a function."""
        return "\n".join(_Writer(self._wiring, self._closers, is_source=is_source).written(number)) + "\n"

    def _function(self, number: int, *, is_source: bool) -> Run:
        found = self._made.get((number, is_source))
        if found is None:
            writer = _Writer(self._wiring, self._closers, is_source=is_source)
            found = self._made[number, is_source] = _explaining(self._wiring, writer, number)
        return found


def _explaining(wiring: Wiring, writer: _Writer, number: int) -> Run:
    """Return the function that a writer has written; it adds the step and the key to errors."""
    text = "\n".join(writer.written(number))
    file = f"{__file__}, steps behind {wiring.graph.nodes[number].title} of flow {wiring.graph.name!r}"
    names: dict[str, Any] = dict(writer.bound)
    exec(compile(text, file, "exec"), names)  # noqa: S102 - the text follows from the kinds of steps only
    run, places = names["run"], writer.places

    def explained(*given: Any) -> None:
        try:
            run(*given)
        except RAISED as error:
            frames = [
                (frame, line)
                for frame, line in traceback.walk_tb(error.__traceback__)
                if frame.f_code.co_filename == file
            ]
            frame, line = frames[-1]
            if line in places:
                node, name = places[line]
                key = frame.f_locals.get(name, ())
                error = wiring.explained(error, node, key, frame.f_locals.get("at"))
            raise error from None

    return explained


Line = tuple[str, tuple[int, str] | None]
"""A line of text, and the node that it runs with the name of the key there, if any."""


class _Writer:
    """Writes one function. `bound`: the values of its names; `places`: the node of each line, and the name of the key there."""

    def __init__(self, wiring: Wiring, closers: Mapping[int, Closer], *, is_source: bool) -> None:
        self._wiring, self._closers, self._is_source = wiring, closers, is_source
        self.bound: dict[str, Any] = {"field_of": steps.field_of, "key_of": steps.key_of, "PLAIN": PLAIN}
        self.places: dict[int, tuple[int, str]] = {}
        self._lines: list[Line] = []
        self._kept: dict[tuple[int, int], None] = {}
        self._wanted: list[int] = []
        self._ways: Counter[int] = Counter()

    def written(self, number: int) -> list[str]:
        """Return the lines of the function of the steps after a node."""
        self._ways = self._ways_from(number)
        body = self._captured(2, lambda: self._readers(number, "k0", "v0", 2))
        functions = self._functions()
        if self._is_source:
            head, loop = (
                "times, values, rows, take, emit, note, parts_of, noting",
                "at, v0, row in zip(times, values, rows)",
            )
        else:
            head, loop = "items, take, emit, parts_of, noting", "k0, v0, at in items"
        kept = [
            f"    p{node}_{port} = parts_of({node}, {port}); note{node}_{port} = noting({node}, {port})"
            for node, port in self._kept
        ]
        before = [f"def run({head}):", "    k0 = ()", *kept]
        lines = [*((line, None) for line in before), *functions, (f"    for {loop}:", None), *body]
        self.places = {row: place for row, (_, place) in enumerate(lines, 1) if place is not None}
        return [line for line, _ in lines]

    def _ways_from(self, number: int) -> Counter[int]:
        """Return the number of paths to each node without state, from the nodes that this one leads to."""
        ways, open_nodes = Counter[int](), [number]
        while open_nodes:
            for reader, _ in self._wiring.readers[open_nodes.pop()]:
                ways[reader] += 1
                if reader != OUT and self._wiring.is_stateless(reader) and ways[reader] == 1:
                    open_nodes.append(reader)
        return ways

    def _functions(self) -> list[Line]:
        """Return the functions of nodes that are too deep, or have several paths to them."""
        found: dict[int, list[Line]] = {}
        while self._wanted:
            node = self._wanted.pop()
            if node in found:
                continue
            body = self._captured(2, lambda node=node: self._step(node, "k", "v", 2))  # type: ignore[misc]
            found[node] = [(f"    def step_{node}(k, v, {self._place}):", None), *body]
        return [line for lines in found.values() for line in lines]

    @property
    def _place(self) -> str:
        return "at, row" if self._is_source else "at"

    def _captured(self, depth: int, write: Callable[[], None]) -> list[Line]:
        before, self._lines = self._lines, []
        write()
        made, self._lines = self._lines or [("    " * depth + "pass", None)], before
        return made

    def _add(self, depth: int, text: str, node: int | None = None, key: str = "") -> None:
        self._lines.append(("    " * depth + text, None if node is None else (node, key)))

    def _readers(self, number: int, k: str, v: str, depth: int) -> None:
        for reader, port in self._wiring.readers[number]:
            if reader == OUT:
                self._add(depth, f"emit({v}); note(row)" if self._is_source else f"emit({v})")
            elif not self._wiring.is_stateless(reader):
                self._keep(reader, port, k, v, depth)
            elif depth > DEEPEST or self._ways[reader] > 1:
                self._wanted.append(reader)
                self._add(depth, f"step_{reader}({k}, {v}, {self._place})")
            else:
                self._step(reader, k, v, depth)

    def _keep(self, node: int, port: int, k: str, v: str, depth: int) -> None:
        """Write the lines that pass an item to a node that keeps something."""
        closer = self._closers.get(node)
        if closer is None:
            self._add(depth, f"take({node}, {port}, {k}, {v}, at)", node, k)
            return
        self._kept[node, port] = None
        parts, forms = (
            f"p{node}_{port}",
            (getattr(type(closer.lifting), name, None) for name in ("lift", "join")),
        )
        match tuple(forms):
            case (Count.lift, Count.join):
                self._add(depth, f"{parts}[{k}] = {parts}.get({k}, 0) + 1", node, k)
            case (Sum.lift, Sum.join):
                self._add(
                    depth, f"{parts}[{k}] = {parts}[{k}] + (0 + {v}) if {k} in {parts} else 0 + {v}", node, k
                )
            case _:
                self.bound |= {f"part_{node}": closer.part, f"join_{node}": closer.join}
                self._add(depth, f"x = part_{node}({k}, {v}, at)", node, k)
                self._add(
                    depth, f"{parts}[{k}] = join_{node}({parts}[{k}], x) if {k} in {parts} else x", node, k
                )
        if not (self._is_source and k == "k0"):  # the key of a stream's items is (), which is plain
            self._add(depth, f"if {MAY_NOT_BE_PLAIN.format(k=k)}: note{node}_{port}({k})", node, k)

    def _step(self, node: int, k: str, v: str, depth: int) -> None:
        """Write a step without state, and those after it."""
        step: Any = self._wiring.graph.nodes[node].step
        function, new_k, new_v = f"function_{node}", f"k{node}", f"v{node}"

        def after(k: str, v: str, depth: int) -> None:
            self._readers(node, k, v, depth)

        self.bound |= {function: getattr(step, "function", None), f"step{node}": step}
        match step:
            case steps.Map():
                self._add(depth, f"{new_v} = {function}({k}, {v})", node, k)
                after(k, new_v, depth)
            case steps.Each():
                self._add(depth, f"{new_v} = {function}({k}, {v}, at)", node, k)
                after(k, new_v, depth)
            case steps.Filter():
                self._add(depth, f"if {function}({k}, {v}):", node, k)
                self._lines += self._captured(depth + 1, lambda: after(k, v, depth + 1))
            case steps.FlatMap():
                self._add(depth, f"for {new_v} in {function}({k}, {v}):", node, k)
                self._lines += self._captured(depth + 1, lambda: after(k, new_v, depth + 1))
            case steps.KeyBy(by):
                self.bound |= {function: by}
                self._add(depth, f"{new_k} = {self._key(node, step, k, v)}", node, k)
                after(new_k, v, depth)
            case steps.Pairs():
                self._add(depth, f"{new_k}, {new_v} = {function}({k}, {v})", node, k)
                after(new_k, new_v, depth)
            case steps.Merge():
                after(k, v, depth)
            case steps.Apply(template):
                self.bound |= {function: template.on_item}
                self._add(depth, f"def emit_{node}(k, v):")
                self._lines += self._captured(depth + 1, lambda: after("k", "v", depth + 1))
                self._add(depth, f"{function}({k}, {v}, emit_{node})", node, k)
            case _:
                self._of_record(node, step, k, v, depth)

    def _key(self, node: int, step: steps.KeyBy, k: str, v: str) -> str:
        if callable(step.by):
            return f"function_{node}({k}, {v})"
        if len(step.by) == 1:
            return f"{v}[{step.by[0]!r}] if type({v}) is dict else key_of(step{node}, {k}, {v})"
        return f"key_of(step{node}, {k}, {v})"

    def _of_record(self, node: int, step: Any, k: str, v: str, depth: int) -> None:
        """Write a step that reads fields."""
        new_v, bound = f"v{node}", f"step{node}"

        def field(name: Any, attribute: str) -> str:
            plain = f"{v}[{name!r}] if type({v}) is dict else " if type(name) in (str, int) else ""
            return f"{plain}field_of({v}, {bound}.{attribute})"

        if isinstance(step, steps.FilterBy):
            self.bound |= {f"values_{node}": step.values}
            self._add(depth, f"if ({field(step.field, 'field')}) in values_{node}:", node, k)
            self._lines += self._captured(depth + 1, lambda: self._readers(node, k, v, depth + 1))
        elif isinstance(step, steps.Project):
            self._add(depth, f"{new_v} = {{name: field_of({v}, name) for name in {bound}.fields}}", node, k)
            self._readers(node, k, new_v, depth)
        else:
            self.bound |= {f"table_{node}": step.table, f"into_{node}": step.into}
            self._add(depth, f"x = {field(step.key, 'key')}", node, k)
            if step.missing == "drop":
                self._add(depth, f"if x in table_{node}:", node, k)
                depth += 1
            self._add(depth, f"{new_v} = {{**{v}, into_{node}: table_{node}[x]}}", node, k)
            self._readers(node, k, new_v, depth)
