"""Lowering a state that is a dict: its entries are read and written by the key of the event.

The entries that a run may touch are arrays by slot: `d_there` says which are there, `d0`, `d1`, ... are their scalars, `d_dirty` says
which were written, and `d_stamps` in which order keys were added. They change in place, so nothing may deviate after a change.
"""

from __future__ import annotations

import ast

from dgs.compiled.lowering.expressions import Payload, Seen
from dgs.compiled.lowering.known_calls import KnownCalls
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
"""The number that stands for the first object of a run. Objects of entries from before have numbers from 0 on."""
GET_WITH_DEFAULT = 2


def entry_arrays(state: Type) -> list[tuple[str, str]]:
    """Return the names and types of the arrays that hold the entries of a state; none if it is no dict."""
    if state.name != "dict":
        return []
    fixed = [("d_there", "?"), ("d_dirty", "?"), ("d_stamps", "i8"), ("d_clock", "i8")]
    return fixed + [(f"d{number}", of) for number, of in enumerate(_scalars(state.parts[0]))]


def _scalars(entry: Type) -> tuple[str, ...]:
    return () if entry == UNSEEN else scalars_of(entry)


def origins_of(payload: Payload) -> list[str | None]:
    """Return what of an event a dict can keep as an object: its payload, None, and the named columns."""
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
        self.wider = self.entry  # with what the update stores
        self.has_stored = False  # on some way to here; `is_there`: on every one
        self.is_there = False
        self.here: ast.AST | None = None

    def deviate(self, test: str) -> None:
        """Write what leaves the event to the interpreter if a test holds. Raises Refused after a change in place."""
        if self.has_stored:
            raise Refused(
                "something here may need the interpreter after the state has been changed in place:"
                " compute first, change last",
                self.here,
            )
        super().deviate(test)

    def store(self, target: ast.Subscript, value: Value) -> None:
        """Lower `state[key] = value`."""
        self._checked_key(target.value, target.slice, target)
        try:
            self.wider = joined(self.wider, value.type, target, what="an entry of the state")
        except Refused:
            if self._as_object(value) is None:
                raise
            self.wider = KEPT
        if not has_form(self.wider):
            if self._as_object(value) is None:
                raise Refused(f"{value.type!r} is kept, and it can only be passed on", target)
            self.wider = KEPT
        self.has_stored = self.is_there = True
        if self.wider != self.entry:
            return  # all is lowered again, with the wider entries
        texts = self._texts(value, target)
        self.put("if not d_there[k]:")
        for line in ("d_there[k] = True", "d_stamps[k] = d_clock[0]", "d_clock[0] += 1"):
            self.put("    " + line)
        self.put("d_dirty[k] = True")
        for number, text in enumerate(texts):
            self.put(f"d{number}[k] = {text}")

    def _texts(self, value: Value, node: ast.AST) -> tuple[str, ...]:
        """Return the texts of the scalars of a value as an entry."""
        if self.entry == KEPT and value.type != KEPT:
            text = self._as_object(value)
            return as_type(value, KEPT, node) if text is None else (text,)
        return as_type(value, self.entry, node)

    def _as_object(self, value: Value) -> str | None:
        """Return the text of the number that stands for what came with the event. None if the value is something else."""
        if value.origin is None or value.origin[0] not in ("payload", "field"):
            return None
        origins = origins_of(self._seen.payload)
        number = origins.index(value.origin[1] if value.origin[0] == "field" else None)
        return f"{FIRST} - (base[0] + i64(i) * {len(origins)} + {number})"

    def _checked_key(self, of: ast.expr, key: ast.expr, node: ast.AST) -> None:
        """Raise Refused unless an entry of the state is asked for by the key of the event."""
        if self.expression(of).type.name != "dict" or self.expression(key).type != KEY:
            raise Refused(
                f"`{ast.unparse(node)}` is not compiled: a dict is read and changed by the key of the event's tag",
                node,
            )

    def _is_state(self, node: ast.expr) -> bool:
        """Whether an expression is the state, and that is a dict."""
        return (
            isinstance(node, ast.Name) and node.id in self.names and self.names[node.id].type.name == "dict"
        )

    def _entry(self) -> Value:
        """Return the entry of the key, of which it is known that it is there."""
        of = self.wider if self.entry == UNSEEN else self.entry  # with the wider one all is lowered again
        return of_texts(of, [self.named(f"d{n}[k]") for n, _ in enumerate(_scalars(of))])

    def _subscript(self, node: ast.Subscript) -> Value:
        if not self._is_state(node.value):
            return super()._subscript(node)
        self._checked_key(node.value, node.slice, node)
        if self.entry == UNSEEN and not self.is_there:
            raise NoEntries("the state has no entries so far", node)
        if not self.is_there:
            self.deviate("not d_there[k]")
        return self._entry()

    def _call(self, node: ast.Call) -> Value:
        function = node.func
        if not isinstance(function, ast.Attribute) or not self._is_state(function.value):
            return super()._call(node)
        if function.attr != "get" or node.keywords or len(node.args) not in (1, GET_WITH_DEFAULT):
            raise Refused(f"a call of `{ast.unparse(function)}` is not compiled", node)
        self._checked_key(function.value, node.args[0], node)
        return self._got(node, self.expression(node.args[1]) if len(node.args) > 1 else NOTHING)

    def _got(self, node: ast.AST, default: Value) -> Value:
        """Return the entry of the key, or what stands for it where there is none."""
        if self.entry == UNSEEN:
            return default
        there, entry = self.named("d_there[k]"), self._entry()
        if default.type == NOTHING.type and self.entry != KEPT:
            if entry.type.is_optional:
                first, *rest = entry.scalars
                return Value(entry.type, (self.named(f"{there} and {first}"), *rest))
            return of_texts(optional(entry.type), [there, *entry.flat])
        of = joined(self.entry, default.type, node, what=f"`{ast.unparse(node)}`")
        pairs = zip(as_type(entry, of, node), as_type(default, of, node), strict=True)
        return of_texts(of, [self.named(f"{one} if {there} else {other}") for one, other in pairs])

    def comparison(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        """Lower a comparison of two values, or whether the state has an entry for the key."""
        if not isinstance(op, (ast.In, ast.NotIn)) or right.type.name != "dict" or left.type != KEY:
            return super().comparison(node, op, left, right)
        if self.entry == UNSEEN:
            return constant(isinstance(op, ast.NotIn))
        there = self.named("d_there[k]")
        return Value(BOOL, (there if isinstance(op, ast.In) else f"(not {there})",))
