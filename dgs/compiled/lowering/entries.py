"""Lowering a state that is a dict: its entries are read and written by the key of the event.

The entries that a run may touch are arrays by slot: `d_there` says which exist, `d0`, `d1`, ... are their scalars, `d_dirty` says which
were written, and `d_stamps` in which order keys were added. An event has one key, and so one entry. While the event is processed, the entry
is a value with a name of its own; it is written when the update returns. So an event that deviates has changed nothing.
"""

from __future__ import annotations

import ast
from contextlib import nullcontext

from dgs.compiled.lowering.expressions import Payload, Seen
from dgs.compiled.lowering.known_calls import KnownCalls
from dgs.compiled.lowering.loops_written_out import text_of
from dgs.compiled.lowering.method_source import Surroundings
from dgs.compiled.lowering.value_types import (
    BOOL,
    KEPT,
    KEY,
    UNSEEN,
    Refused,
    Type,
    has_form,
    joined,
    optional,
    scalars_of,
)
from dgs.compiled.lowering.values import NOTHING, Value, as_type, constant, of_texts

FIRST = -2
"""The number of the first object of a run. Objects of earlier entries have numbers from 0 on."""
GET_WITH_DEFAULT = 2
THERE, ENTRY, CHANGED = "is there", "the entry", "has changed"
"""Names that no update uses: whether there is an entry for the event's key, the entry, and whether this event has changed it."""


def entry_arrays(state: Type) -> list[tuple[str, str]]:
    """Return the names and types of the arrays that hold the entries of a state; none if it is no dict."""
    if state.name != "dict":
        return []
    fixed = [("d_there", "?"), ("d_dirty", "?"), ("d_stamps", "i8"), ("d_clock", "i8")]
    return fixed + [(f"d{number}", of) for number, of in enumerate(_scalars(state.parts[0]))]


def _scalars(entry: Type) -> tuple[str, ...]:
    return () if entry == UNSEEN else scalars_of(entry)


def origins_of(payload: Payload) -> list[str | None]:
    """Return the parts of an event that a dict can keep as an object: its payload, None, and the named columns."""
    return [None, *(payload if isinstance(payload, dict) else ())]


class NoEntries(Refused):
    """An entry is read, and no state so far has had one: Python raises KeyError."""


class Entries(KnownCalls):
    """Lowers what an update does with the entries of its state."""

    def __init__(
        self,
        seen: Seen,
        surroundings: Surroundings,
        local_names: frozenset[str],
        state: Type,
        *,
        depth: int,
        prefix: str,
    ) -> None:
        super().__init__(seen, surroundings, local_names, depth, prefix)
        self.entry = state.parts[0] if state.name == "dict" else UNSEEN
        self.wider = self.entry  # together with the values that the update stores

    def begin_entry(self) -> None:
        """Assign the entry of the event's key to its names."""
        there = constant(False) if self.entry == UNSEEN else Value(BOOL, (self.named("d_there[k]"),))
        entry = of_texts(self.entry, [self.named(f"d{n}[k]") for n, _ in enumerate(_scalars(self.entry))])
        self.names |= {THERE: there, ENTRY: entry, CHANGED: constant(False)}

    def end_entry(self, node: ast.AST) -> None:
        """Write the entry if it was changed."""
        changed, entry = self.names[CHANGED], self.names[ENTRY]
        if changed.is_known and not changed.constant:
            return
        self.wider = joined(self.wider, entry.type, node, what="an entry of the state")
        if self.wider != self.entry:
            return  # the update is lowered again, with the wider entries
        if not changed.is_known:
            self.put(f"if {changed.scalars[0]}:")
        with self.indented() if not changed.is_known else nullcontext():
            self.put("if not d_there[k]:")
            for line in ("d_there[k] = True", "d_stamps[k] = d_clock[0]", "d_clock[0] += 1"):
                self.put("    " + line)
            self.put("d_dirty[k] = True")
            for number, text in enumerate(as_type(entry, self.entry, node)):
                self.put(f"d{number}[k] = {text}")

    def store(self, target: ast.Subscript, value: Value) -> None:
        """Lower `state[key] = value`."""
        self._checked_key(target.value, target.slice, target)
        kept = self._as_object(value)
        try:
            wider = joined(self.wider, value.type, target, what="an entry of the state")
        except Refused:
            if kept is None:
                raise
            wider = KEPT
        if wider == KEPT or not has_form(wider):
            if kept is None and value.type not in (KEPT, NOTHING.type):
                raise Refused(f"{value.type!r} is kept, and it can only be passed on", target)
            self.wider = KEPT
            value = value if kept is None else Value(KEPT, (self.named(kept),))
        else:
            self.wider = wider
        yes = constant(True)
        self.names |= {ENTRY: value, THERE: yes, CHANGED: yes}

    def _as_object(self, value: Value) -> str | None:
        """Return the text of the number of an object that came with the event; None for any other value."""
        if value.origin is None or value.origin[0] not in ("payload", "field"):
            return None
        origins = origins_of(self._seen.payload)
        number = origins.index(value.origin[1] if value.origin[0] == "field" else None)
        return f"{FIRST} - (base[0] + i64(i) * {len(origins)} + {number})"

    def _checked_key(self, of: ast.expr, key: ast.expr, node: ast.AST) -> None:
        """Raise Refused unless the entry of the state has the key of the event."""
        if self.expression(of).type.name != "dict" or self.expression(key).type != KEY:
            raise Refused(
                f"`{text_of(node)}` is not compiled: a dict is read and changed by the key of the event's tag",
                node,
            )

    def _is_state(self, node: ast.expr) -> bool:
        """Return whether an expression is the state, and the state is a dict."""
        return (
            isinstance(node, ast.Name) and node.id in self.names and self.names[node.id].type.name == "dict"
        )

    def _subscript(self, node: ast.Subscript) -> Value:
        if not self._is_state(node.value):
            return super()._subscript(node)
        self._checked_key(node.value, node.slice, node)
        there = self.names[THERE]
        if there.is_known and not there.constant:
            raise NoEntries("the state has no entries so far", node)
        if not there.is_known:
            self.deviate(f"not {there.scalars[0]}")
        return self.names[ENTRY]

    def _call(self, node: ast.Call) -> Value:
        function = node.func
        if not isinstance(function, ast.Attribute) or not self._is_state(function.value):
            return super()._call(node)
        if function.attr != "get" or node.keywords or len(node.args) not in (1, GET_WITH_DEFAULT):
            raise Refused(f"a call of `{text_of(function)}` is not compiled", node)
        self._checked_key(function.value, node.args[0], node)
        return self._got(node, self.expression(node.args[1]) if len(node.args) > 1 else NOTHING)

    def _got(self, node: ast.AST, default: Value) -> Value:
        """Return the entry of the key, or the default if there is none."""
        there, entry = self.names[THERE], self.names[ENTRY]
        if there.is_known:
            return entry if there.constant else default
        (test,) = there.scalars
        if default.type == NOTHING.type and entry.type != KEPT:
            if entry.type.is_optional:
                first, *rest = entry.scalars
                return Value(
                    entry.type, (self.named(f"{test} and {first}"), *rest, *entry.flat[len(entry.scalars) :])
                )
            return of_texts(optional(entry.type), [test, *entry.flat])
        of = joined(entry.type, default.type, node, what=f"`{text_of(node)}`")
        pairs = zip(as_type(entry, of, node), as_type(default, of, node), strict=True)
        return of_texts(of, [self.named(f"{one} if {test} else {other}") for one, other in pairs])

    def comparison(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower a comparison of two values, or whether the state has an entry for the key."""
        if not isinstance(op, (ast.In, ast.NotIn)) or right.type.name != "dict" or left.type != KEY:
            return super().comparison(node, op, left, right)
        there = self.names[THERE]
        if there.is_known:
            return constant(there.constant == isinstance(op, ast.In))
        return Value(BOOL, (there.scalars[0] if isinstance(op, ast.In) else f"(not {there.scalars[0]})",))
