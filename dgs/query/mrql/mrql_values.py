"""Expressions of MRQL that have one value for each row: names, constructors, projections, operators and conditions.

`Values.term` reads an expression in a block of rows, to which nested queries add columns. Tuples and records are kept as separate fields,
and are compared and chosen field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dgs.errors.nearest import did_you_mean
from dgs.query.functions import FUNCTIONS
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block, Grouped
from dgs.query.mrql.mrql_columns import Columns
from dgs.query.mrql.mrql_parser import QueryText
from dgs.query.mrql.mrql_terms import (
    Fields,
    Later,
    Lifted,
    Names,
    One,
    Routine,
    Rows,
    Term,
    UserAggregation,
    Value,
)
from dgs.query.relation import Map
from dgs.query.scalar import Scalar, call, column, literal, when

SIGNS = {
    "=": "eq",
    "<>": "neq",
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
    "+": "add",
    "-": "sub",
    "*": "mul",
    "%": "mod",
}
SIGNS |= {"and": "and", "or": "or"}
FUNCTION_NAMES = {"pow": "power", "log": "ln", "abs": "abs", "text_length": "length"}
DEEPEST = 50
"""The most nested calls of functions: deeper ones are a recursion that no constant ends."""


class Values(Columns):
    """Reads values."""

    def __init__(self, text: QueryText) -> None:
        super().__init__(text)
        self.depth = 0

    # -- to be given by the readers of collections -----------------------------------------------

    def aggregate(self, tree: t.Call, names: Names, block: Block) -> Term | None:
        """Return the value of an aggregate; None if the call is not an aggregate."""
        raise NotImplementedError

    def quantified(self, tree: t.Quantified, names: Names, block: Block) -> Term:
        """Whether some element, or all, fulfil a condition."""
        raise NotImplementedError

    def argument_of(self, tree: t.ArgumentOf, names: Names, block: Block) -> Term:
        """Return the ordinal of the element with the least value, or the greatest."""
        raise NotImplementedError

    def element_at(self, tree: t.ElementAt, names: Names, block: Block) -> Term:
        """One element of a collection."""
        raise NotImplementedError

    def closed(self, tree: t.Tree, names: Names) -> Term | None:
        """Return an expression that adds nothing to the enclosing rows; None if it must. See `Collections.closed`."""
        raise NotImplementedError

    # -- expressions -----------------------------------------------------------------------------

    def term(self, tree: t.Tree, names: Names, block: Block) -> Term:
        """Return the term of an expression in a block of rows. Raises QueryError, and NeedsRows for columns of the enclosing rows."""
        if isinstance(block.base, Grouped):
            for written, key in block.base.written:
                if written == tree:
                    return key
        reader: Callable[[Any, Names, Block], Term] | None = self._readers().get(type(tree))
        if reader is None:
            return Later(tree, names)
        return reader(tree, names, block)

    def value(self, tree: t.Tree, names: Names, block: Block) -> Scalar:
        """Return an expression as one scalar."""
        return self.scalar(self.term(tree, names, block), tree.at, block)

    def _readers(self) -> Mapping[type, Callable[[Any, Names, Block], Term]]:
        return {
            t.Name: self._name,
            t.Constant: lambda tree, _, __: Value(literal(tree.value)),
            t.TupleOf: self._tuple,
            t.RecordOf: self._record,
            t.Call: self._call,
            t.FieldOf: self._field,
            t.ItemOf: self._item,
            t.ElementAt: self.element_at,
            t.Unary: self._unary,
            t.Binary: self._binary,
            t.IfThen: self._if_then,
            t.Let: self._let,
            t.Quantified: self.quantified,
            t.ArgumentOf: self.argument_of,
        }

    def _name(self, tree: t.Name, names: Names, block: Block) -> Term:
        found = names.get(tree.name)
        if found is None:
            hint = did_you_mean(tree.name, names.known())
            remedy = "" if hint else "Define it before this statement."
            raise self.text.error("Q201", tree.at, f"no name {tree.name!r}{hint}", remedy, name=tree.name)
        if isinstance(found, Routine | UserAggregation):
            raise self.text.error(
                "Q204", tree.at, f"{tree.name} is a function", f"Call it: `{tree.name}(..)`."
            )
        return self.beside(found, block) if isinstance(found, One) else found

    def beside(self, one: One, block: Block) -> Term:
        """Return a value that does not depend on rows, as columns of the block."""
        known = block.ones.get(id(one.node))
        if known is None:
            node, known = self.renamed(one.node, one.value)
            block.join(node, node.schema.names)
            block.ones[id(one.node)] = known
        return known

    def renamed(self, node: Any, element: Term, keep: Mapping[str, str] | None = None) -> tuple[Map, Term]:
        """Return a relation under new column names, with its element over them. `keep`: further columns with their new names."""
        given: list[tuple[str, Scalar]] = [(new, column(name)) for name, new in (keep or {}).items()]

        def move(term: Term, hint: str) -> Term:
            if isinstance(term, Fields):
                return replace(term, items=tuple((name, move(one, name)) for name, one in term.items))
            if not isinstance(term, Value):
                raise TypeError(term)
            name = self.fresh(hint)
            given.append((name, term.scalar))
            return Value(column(name))

        moved = move(element, "value")
        made = Map(node, tuple(given))
        self.types |= dict(made.schema.fields)
        return made, moved

    def _tuple(self, tree: t.TupleOf, names: Names, block: Block) -> Term:
        return Fields(
            tuple((f"_{place}", self.term(one, names, block)) for place, one in enumerate(tree.items)),
            is_tuple=True,
        )

    def _record(self, tree: t.RecordOf, names: Names, block: Block) -> Term:
        return Fields(tuple((name, self.term(one, names, block)) for name, one in tree.items), is_tuple=False)

    def _field(self, tree: t.FieldOf, names: Names, block: Block) -> Term:
        return self._part(tree.of, tree.name, tree, names, block)

    def _item(self, tree: t.ItemOf, names: Names, block: Block) -> Term:
        return self._part(tree.of, f"_{tree.index}", tree, names, block)

    def _part(self, of: t.Tree, name: str, tree: t.Tree, names: Names, block: Block) -> Term:
        whole = self.term(of, names, block)
        if isinstance(whole, Lifted):
            return Lifted(self.part(self.fields_of(whole.term, tree.at), name, tree), whole.group)
        if self.is_collection(whole):
            each = t.Name(" each", at=tree.at)
            part: t.Tree = (
                t.ItemOf(each, tree.index, at=tree.at)
                if isinstance(tree, t.ItemOf)
                else t.FieldOf(each, name, at=tree.at)
            )
            pattern = t.NamePattern(" each", at=tree.at)
            return Later(t.Select(False, part, ((pattern, of),), None, None, None, (), at=tree.at), names)
        return self.part(self.fields_of(whole, tree.at), name, tree)

    def part(self, whole: Term, name: str, tree: t.Tree) -> Term:
        """Return a field of a record, or an item of a tuple. Raises Q201, Q203 or Q204."""
        found = whole.get(name) if isinstance(whole, Fields) else None
        if found is not None:
            return found
        if not isinstance(whole, Fields):
            raise self.text.error(
                "Q204", tree.at, f"no {'tuple' if isinstance(tree, t.ItemOf) else 'record'} that has parts"
            )
        if isinstance(tree, t.ItemOf):
            raise self.text.error(
                "Q203", tree.at, f"`#{tree.index}` of {len(whole.items)} items", "Items count from 0."
            )
        hint = did_you_mean(name, whole.names) or f": there are {', '.join(whole.names)}"
        raise self.text.error("Q201", tree.at, f"no field {name!r}{hint}")

    def is_collection(self, term: Term) -> bool:
        """Whether a term is a bag or a list."""
        return isinstance(term, Rows | Later | Lifted) or (
            isinstance(term, Value) and self.type_of(term.scalar).is_collection
        )

    def _unary(self, tree: t.Unary, names: Names, block: Block) -> Term:
        return self.checked(
            call("not" if tree.sign == "not" else "neg", self.value(tree.of, names, block)), tree.at
        )

    def _binary(self, tree: t.Binary, names: Names, block: Block) -> Term:
        if isinstance(tree.left, t.ListOf) and isinstance(tree.right, t.ListOf):
            return Later(t.ListOf(tree.left.items + tree.right.items, at=tree.at), names)
        left, right = self.term(tree.left, names, block), self.term(tree.right, names, block)
        if tree.sign == "+" and self.is_collection(left) and self.is_collection(right):
            return Later(tree, names)
        return self.operation(tree.sign, left, right, tree.at, block)

    def operation(self, sign: str, left: Term, right: Term, at: t.Place, block: Block) -> Term:
        """Return two values with an operator between them. Raises Q204."""
        left, right = self.fields_of(left, at), self.fields_of(right, at)
        if isinstance(left, Fields) and isinstance(right, Fields) and sign in ("=", "<>"):
            return self._same_fields(sign, left, right, at, block)
        one, other = self.scalar(left, at, block), self.scalar(right, at, block)
        kinds = {self.type_of(one).kind, self.type_of(other).kind}
        if sign in ("/", "div"):
            return self.checked(
                call("intdiv" if kinds == {"int64"} or sign == "div" else "div", one, other), at
            )
        if sign == "+" and kinds == {"text"}:
            return self.checked(call("concat_strict", one, other), at)
        return self.checked(call(SIGNS[sign], one, other), at)

    def _same_fields(self, sign: str, left: Fields, right: Fields, at: t.Place, block: Block) -> Term:
        if left.names != right.names:
            problem = f"({', '.join(left.names)}) cannot be compared with ({', '.join(right.names)})"
            raise self.text.error("Q204", at, problem)
        tests = [
            self.operation("=", one, other, at, block)
            for (_, one), (_, other) in zip(left.items, right.items, strict=True)
        ]
        found = self.scalar(tests[0], at, block)
        for one in tests[1:]:
            found = call("and", found, self.scalar(one, at, block))
        return self.checked(found if sign == "=" else call("not", found), at)

    def _if_then(self, tree: t.IfThen, names: Names, block: Block) -> Term:
        condition = self.value(tree.condition, names, block)
        if condition == literal(value=True) or condition == literal(value=False):
            return self.term(tree.yes if condition == literal(value=True) else tree.no, names, block)
        yes, no = self.term(tree.yes, names, block), self.term(tree.no, names, block)
        return self.chosen(condition, yes, no, tree.at, block)

    def chosen(self, condition: Scalar, yes: Term, no: Term, at: t.Place, block: Block) -> Term:
        """Return one of two values, field by field."""
        if isinstance(yes, Fields) and isinstance(no, Fields) and yes.names == no.names:
            pairs = zip(yes.items, no.items, strict=True)
            return replace(
                yes,
                items=tuple((name, self.chosen(condition, a, b, at, block)) for (name, a), (_, b) in pairs),
            )
        return self.checked(when(condition, self.scalar(yes, at, block), self.scalar(no, at, block)), at)

    def _let(self, tree: t.Let, names: Names, block: Block) -> Term:
        found = self.closed(tree.value, names) or self.term(tree.value, names, block)
        if isinstance(found, One) and not isinstance(tree.pattern, t.NamePattern):
            found = self.beside(found, block)
        return self.term(tree.body, names.with_(self.bind(tree.pattern, found)), block)

    def bind(self, pattern: t.Pattern, term: Term) -> dict[str, Term]:
        """Return the names that a pattern gives to the parts of a value. Raises Q203, Q201 or Q204."""
        if isinstance(pattern, t.NamePattern):
            return {} if pattern.name == "_" else {pattern.name: term}
        whole = self.fields_of(term, pattern.at)
        found: dict[str, Term] = {}
        if isinstance(pattern, t.TuplePattern):
            if not isinstance(whole, Fields) or not whole.is_tuple:
                raise self.text.error(
                    "Q204",
                    pattern.at,
                    "a tuple pattern for elements that are no tuples",
                    "Records have patterns such as `<A: x, B: y>`; a name alone fits any element.",
                )
            if len(whole.items) != len(pattern.items):
                raise self.text.error(
                    "Q203", pattern.at, f"{len(pattern.items)} names for tuples of {len(whole.items)} items"
                )
            for one, (_, item) in zip(pattern.items, whole.items, strict=True):
                found |= self.bind(one, item)
            return found
        for name, one in pattern.items:
            found |= self.bind(
                one, self.part(whole, name, t.FieldOf(t.Name(name, at=one.at), name, at=one.at))
            )
        return found

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, tree: t.Call, names: Names, block: Block) -> Term:
        routine = names.get(tree.name)
        if isinstance(routine, Routine):
            return self._routine(tree, routine, names, block)
        found = self.aggregate(tree, names, block)
        if found is not None:
            return found
        name = FUNCTION_NAMES.get(tree.name, tree.name)
        if name not in FUNCTIONS:
            known = [
                *FUNCTIONS,
                *(one for one in names.known() if isinstance(names.get(one), Routine)),
                *AGGREGATE_NAMES,
            ]
            raise self.text.error(
                "Q205", tree.at, f"no function {tree.name!r}{did_you_mean(tree.name, known)}"
            )
        arguments = [self.value(one, names, block) for one in tree.arguments]
        return self.checked(call(name, *arguments), tree.at)

    def _routine(self, tree: t.Call, routine: Routine, names: Names, block: Block) -> Term:
        definition = routine.definition
        if len(tree.arguments) != len(definition.parameters):
            takes = f"{tree.name} takes {len(definition.parameters)} arguments, not {len(tree.arguments)}"
            raise self.text.error("Q206", tree.at, takes)
        if self.depth == DEEPEST:
            problem = f"the function {tree.name!r} calls itself without an end that the text fixes"
            raise self.text.error(
                "Q110", tree.at, problem, "Recursion over data is not supported: use `repeat`."
            )
        self.depth += 1
        try:
            given = {
                name: self.closed(one, names) or self.term(one, names, block)
                for name, one in zip(definition.parameters, tree.arguments, strict=True)
            }
            return self.term(definition.body, routine.names.with_({tree.name: routine, **given}), block)
        finally:
            self.depth -= 1


AGGREGATE_NAMES = ("count", "sum", "avg", "min", "max", "median", "distinct", "exists")
