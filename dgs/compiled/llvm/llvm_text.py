"""The text of a loop as text of LLVM.

The text of a loop uses few words of Python: numbers, columns, `if`, `while`, `for` over a range, assignments, and calls of checked
operations and of the loops of lanes. They have the same meaning as in Python, and `python_loops` runs the same text.

>>> functions = Functions("def twice(a): return a + a, True")
>>> functions.made("twice", ("i64",))
('i64', 'i1')
>>> functions.texts[0].splitlines()[0]
'define internal {i64, i1} @twice(i64 %in.a) alwaysinline nounwind {'
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dgs.compiled.llvm.llvm_function import LlvmFunction, returned_type
from dgs.compiled.llvm.llvm_operations import BOOL, IN_WORDS, INT, OPERATIONS, VALUES
from dgs.compiled.lowering.value_types import Refused

ENTRY = "@entry("
"""The name, in the text, of the function that others call."""
RESULTS = 2
"""Before the scalars of the state, a loop returns the row that it has reached and whether the event there deviates."""


def llvm_text(text: str, arguments: Sequence[str], scalars: Sequence[str]) -> str:
    """Return the text of a loop for LLVM. `arguments`: the types of its columns and ints. `scalars`: those of the state. Raises Refused.

    The function `entry` takes the address of 64-bit cells, see `_entry`.
    """
    names = [of.rpartition(":")[2] for of in arguments]
    types = [INT if of == "int" else f"*{of}" for of in names]
    types += [VALUES[of] for of in scalars]
    functions = Functions(IN_WORDS + text)
    parts = functions.made("loop", tuple(types))
    return "\n".join([OPERATIONS, *functions.texts, *_entry(types, parts), ""])


class Functions:
    """The functions of a text. `texts`: those that were translated, for the types of the arguments that they are called with."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self._nodes = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self._made: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self.texts: list[str] = []

    def made(self, name: str, types: tuple[str, ...]) -> tuple[str, ...]:
        """Return the types that a function returns; translate it if necessary. Raises Refused if it has no machine code."""
        if name not in self._made:
            function = LlvmFunction(self, self._nodes[name], types)
            self.texts.append(function.text)
            self._made[name] = types, function.parts
        known, parts = self._made[name]
        if known != types:
            raise Refused(f"the loop calls `{name}` with values of two types")
        return parts

    def has(self, name: str) -> bool:
        """Whether the text defines a function."""
        return name in self._nodes


def _entry(types: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Return the function that reads a loop's arguments from cells, and writes its results into them.

    Cells: the address of each column, or an int; the scalars of the state, which change in place; the two other results.
    """
    returned, given = returned_type(parts), []
    lines = [f"define void {ENTRY}ptr %cells) nounwind {{"]
    for number, of in enumerate(types):
        lines.append(f"  %c{number} = getelementptr i64, ptr %cells, i64 {number}")
        held = "ptr" if of.startswith("*") else of
        given.append(f"{'ptr noalias' if held == 'ptr' else of} %a{number}")
        if of == BOOL:
            lines.append(f"  %w{number} = load i64, ptr %c{number}")
            lines.append(f"  %a{number} = icmp ne i64 %w{number}, 0")
        else:
            lines.append(f"  %a{number} = load {held}, ptr %c{number}")
    lines.append(f"  %r = call {returned} @loop({', '.join(given)})")
    count = len(types)
    places = [count, count + 1, *range(count - len(parts) + RESULTS, count)]
    for number, (place, of) in enumerate(zip(places, parts, strict=True)):
        lines.append(f"  %o{number} = getelementptr i64, ptr %cells, i64 {place}")
        lines.append(f"  %v{number} = extractvalue {returned} %r, {number}")
        if of == BOOL:
            lines.append(f"  %z{number} = zext i1 %v{number} to i64")
        lines.append(f"  store {f'i64 %z{number}' if of == BOOL else f'{of} %v{number}'}, ptr %o{number}")
    return [*lines, "  ret void", "}"]
