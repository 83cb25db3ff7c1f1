"""Collections of MRQL as generators of a block and as relations: selects, literals, unions, loops and sources.

A select over another select without grouping is one block with it: the generators and conditions are joined. A select that is grouped,
distinct or ordered is a separate relation; if it reads the enclosing rows, it begins with their different values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from dgs.errors import InternalError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block, Grouped, NeedsRows
from dgs.query.mrql.mrql_terms import Fields, Later, Lifted, Names, One, Rows, Term, Value, leaves, shape
from dgs.query.mrql.mrql_values import Values
from dgs.query.relation import Group, Key, Map, Order, Relation, Union
from dgs.query.scalar import Scalar, call, column, conjuncts, literal
from dgs.query.types import Type

Context = tuple[Relation, tuple[str, ...]]
"""The different values of some columns of the enclosing rows, with their names: a nested select begins with them."""

Found = TypeVar("Found")


class Collections(Values):
    """Reads collections."""

    def loop(self, tree: t.RepeatOf, names: Names) -> list[Rows]:
        """Return the relations of the names of `repeat`, in order."""
        raise NotImplementedError

    def source(self, tree: t.ReaderOf) -> Rows:
        """Return the relation of `source(..)` or `stream(..)`."""
        raise NotImplementedError

    # -- generators ------------------------------------------------------------------------------

    def generate(self, term: Term, at: t.Place, block: Block) -> Term:
        """Add a generator over a collection to a block; return its element over the block's columns."""
        if isinstance(term, Lifted):
            term = self.collected(term, block)
        if isinstance(term, Rows):
            node, element = self.renamed(term.node, term.element)
            block.join(node, node.schema.names)
            return element
        if isinstance(term, Value) and self.type_of(term.scalar).of is not None:
            return self._expand(term.scalar, at, block)
        if not isinstance(term, Later):
            raise self.text.error("Q204", at, "a value where a bag or list is needed")
        tree, names = term.tree, term.names
        if isinstance(tree, t.Select) and not (tree.is_distinct or tree.group or tree.order):
            inside = self.generators(tree, names, block)
            return self.term(tree.head, inside, block)
        if isinstance(tree, t.BagOf | t.ListOf) and tree.items:
            items = [self.term(one, names, block) for one in tree.items]
            if all(isinstance(one, Value) and not self.is_collection(one) for one in items):
                array = self.checked(
                    call("array", *(one.scalar for one in items if isinstance(one, Value))), at
                )
                return self._expand(array.scalar, at, block)
        return self._generate_rows(term, at, block)

    def _expand(self, of: Scalar, at: t.Place, block: Block) -> Term:
        item = self.type_of(of).of
        name = self.fresh("item")
        self.types[name] = item or Type("null")
        block.expand(of, name)
        return self.fields_of(Value(column(name)), at)

    def _generate_rows(self, term: Later, at: t.Place, block: Block) -> Term:
        rows, context = self.in_context(block, lambda context: self.rows(term, at, context))
        if context is None:
            return self.generate(rows, at, block)
        keep = {name: self.fresh(name) for name in context[1]}
        node, element = self.renamed(rows.node, rows.element, keep)
        block.join(node, node.schema.names)
        for mine, other in self.same_rows(keep):
            block.where(call("eq", mine, other))
        return element

    def in_context(
        self, block: Block, attempt: Callable[[Context | None], Found]
    ) -> tuple[Found, Context | None]:
        """Return the result of an attempt, and its context: first None, then the columns of the enclosing rows that it needs.

        Raises NeedsRows for columns that the block does not have.
        """
        columns: frozenset[str] = frozenset()
        while True:
            try:
                context = self.context(block, columns) if columns else None
                return attempt(context), context
            except NeedsRows as needs:
                block.require(*map(column, needs.columns))
                if needs.columns <= columns:
                    raise InternalError(
                        problem=f"a nested query needs {sorted(needs.columns)} again"
                    ) from None
                columns |= needs.columns

    def context(self, block: Block, columns: Iterable[str]) -> Context:
        """Return the different values of columns of a block. Raises NeedsRows if they are not the block's."""
        names = tuple(sorted(columns))
        block.require(*map(column, names))
        return Group(block.build(), tuple((name, column(name)) for name in names)), names

    def same_rows(self, keep: dict[str, str]) -> list[tuple[Scalar, Scalar]]:
        """Return equalities that match rows by columns, nulls with nulls."""
        pairs = []
        defaults = {"int64": 0, "float64": 0.0, "text": "", "bool": False}
        for name, new in keep.items():
            of = self.types[name]
            if of.nullable and of.kind in defaults:
                default = literal(defaults[of.kind])
                pairs.append(
                    (call("coalesce", column(name), default), call("coalesce", column(new), default))
                )
                pairs.append((call("isnull", column(name)), call("isnull", column(new))))
            else:
                pairs.append((column(name), column(new)))
        return pairs

    def generators(self, tree: t.Select, names: Names, block: Block) -> Names:
        """Add the generators and conditions of a select to a block; return the names that they bind."""
        for pattern, source in tree.generators:
            if isinstance(source, t.Same):
                element = self.term(source.value, names, block)
            else:
                element = self.generate(self.term(source, names, block), source.at, block)
            names = names.with_(self.bind(pattern, element))
        self.filter(tree.where, names, block)
        return names

    def filter(self, condition: t.Tree | None, names: Names, block: Block) -> None:
        """Add a condition to a block, each of its conjuncts on its own."""
        if condition is None:
            return
        if isinstance(condition, t.Binary) and condition.sign == "and":
            self.filter(condition.left, names, block)
            self.filter(condition.right, names, block)
            return
        scalar = self.value(condition, names, block)
        if self.type_of(scalar).kind not in ("bool", "null"):
            raise self.text.error("Q204", condition.at, f"{self.type_of(scalar)} where a condition is needed")
        for one in conjuncts(scalar):
            block.where(one)

    # -- relations -------------------------------------------------------------------------------

    def rows(self, term: Term, at: t.Place, context: Context | None = None) -> Rows:
        """Return a collection as a relation. With a context: for each of its rows, whose columns it keeps. Raises NeedsRows."""
        if isinstance(term, Rows) and context is None:
            return term
        found = self._rows_of(term.tree, term.names, context) if isinstance(term, Later) else None
        if found is not None:
            return found
        block = Block(*context) if context else Block()
        element = self.generate(term, at, block)
        return self.finished(block, element, context)

    def _rows_of(self, tree: t.Tree, names: Names, context: Context | None) -> Rows | None:
        found: Rows | None = None
        if isinstance(tree, t.Select):
            found = self._select(tree, names, context)
        elif isinstance(tree, t.Binary):
            found = self._union([tree.left, tree.right], names, context)
        elif isinstance(tree, t.BagOf | t.ListOf):
            found = self._literal(tree, names, context)
        elif isinstance(tree, t.RepeatOf):
            found = self.loop(tree, names)[0]
        elif isinstance(tree, t.ReaderOf):
            found = self.source(tree)
        return found

    def _select(self, tree: t.Select, names: Names, context: Context | None) -> Rows:
        block = Block(*context) if context else Block()
        outside, names = names, self.generators(tree, names, block)
        if tree.group is not None:
            lifted = self._since(names, outside)
            block, names = self._grouped(tree.group, names, lifted, block, context)
        self.filter(tree.having, names, block)
        element = self.single(self.term(tree.head, names, block), tree.head.at, block)
        order = [(self.value(key, names, block), descending) for key, descending in tree.order]
        rows = self.finished(block, element, context, [scalar for scalar, _ in order], tree.head)
        if tree.is_distinct:
            if order:
                raise self.text.error(
                    "Q110", tree.at, "`select distinct` with `order by`", "Order a select over it."
                )
            keys = tuple((name, column(name)) for name in rows.node.schema.names)
            rows = Rows(Group(rows.node, keys), rows.element)
        if order:
            by = tuple(
                Key(column(name), descending) for name, (_, descending) in zip(rows.order, order, strict=True)
            )
            rows = Rows(Order(rows.node, by, span=self.text.span(tree.at)), rows.element, rows.order)
        return rows

    def _grouped(
        self,
        group: tuple[t.Pattern | None, t.Tree],
        names: Names,
        bound: dict[str, Term],
        block: Block,
        context: Context | None,
    ) -> tuple[Block, Names]:
        """Return the block after a `group by`, and its names: variables bound before become bags, the pattern names the key."""
        pattern, of = group
        key = self.single(self.term(of, names, block), of.at, block)
        kept = context[1] if context else ()
        keys: list[tuple[str, Scalar]] = [(name, column(name)) for name in kept]

        def move(term: Term, hint: str) -> Term:
            if isinstance(term, Fields):
                return Fields(tuple((name, move(one, name)) for name, one in term.items), term.is_tuple)
            if not isinstance(term, Value):
                raise InternalError(problem=f"a group key {term}")
            name = self.fresh(hint)
            self.types[name] = self.type_of(term.scalar)
            keys.append((name, term.scalar))
            return Value(column(name))

        moved = move(key, pattern.name if isinstance(pattern, t.NamePattern) else "key")
        written = [(of, moved)]
        if pattern is None and isinstance(of, t.TupleOf) and isinstance(moved, Fields):
            written += [(one, item) for one, (_, item) in zip(of.items, moved.items, strict=True)]
        grouped = Grouped(block, keys, written)
        after = grouped.after = Block(grouped, [name for name, _ in keys])
        lifted = {name: Lifted(term, grouped) for name, term in bound.items()}
        return after, names.with_(lifted | (self.bind(pattern, moved) if pattern else {}))

    def _since(self, names: Names, before: Names) -> dict[str, Term]:
        """Return the values of the names that the generators of a select have bound."""
        found: dict[str, Term] = {}
        scope: Names | None = names
        while scope is not None and scope is not before:
            found = {
                name: term for name, term in scope.own.items() if isinstance(term, Value | Fields)
            } | found
            scope = scope.outer
        return found

    def single(self, term: Term, at: t.Place, block: Block) -> Term:
        """Return a value whose parts are values: collections in it become columns."""
        if isinstance(term, Fields):
            return Fields(
                tuple((name, self.single(one, at, block)) for name, one in term.items), term.is_tuple
            )
        if isinstance(term, Lifted):
            return self.single(self.collected(term, block), at, block)
        if isinstance(term, Rows | Later):
            return self.nested(term, at, block)
        if isinstance(term, Value):
            return term
        raise self.text.error("Q204", at, "a function where a value is needed")

    def nested(self, term: Term, at: t.Place, block: Block) -> Term:
        """Return a collection as a bag in a column."""
        raise NotImplementedError

    def finished(
        self,
        block: Block,
        element: Term,
        context: Context | None,
        order: Iterable[Scalar] = (),
        head: t.Tree | None = None,
    ) -> Rows:
        """Return the relation of a block with its element, the columns of the context and of an order. Raises NeedsRows."""
        order = list(order)
        needed = [*leaves(element), *order, *block.conditions]
        _require_of_groups(block)
        block.require(*needed)
        names: dict[str, Scalar] = {name: column(name) for name in (context[1] if context else ())}

        def move(term: Term, tree: t.Tree | None, hint: str) -> Term:
            if isinstance(term, Fields):
                parts = _parts(tree, term)
                moved = (move(one, part, name) for (name, one), part in zip(term.items, parts, strict=True))
                return Fields(tuple(zip(term.names, moved, strict=True)), term.is_tuple)
            if not isinstance(term, Value):
                raise InternalError(problem=f"an element {term}")
            name = _unused(tree.name if isinstance(tree, t.Name | t.FieldOf) else hint, names)
            names[name] = term.scalar
            return Value(column(name))

        moved = move(element, head, "value")
        keys = []
        for scalar in order:
            keys.append(_unused("order", names))
            names[keys[-1]] = scalar
        node = Map(block.build(), tuple(names.items()))
        return Rows(node, moved, tuple(keys))

    def _union(self, trees: list[t.Tree], names: Names, context: Context | None) -> Rows:
        parts = []
        for tree in trees:
            block = Block(*context) if context else Block()
            parts.append(self.rows(self.term(tree, names, block), tree.at, context))
        first = parts[0]
        kept = context[1] if context else ()
        aligned = [
            Map(one.node, tuple((name, column(name)) for name in (*kept, *_columns(one.element))))
            for one in parts
        ]
        if len({len(one.fields) for one in aligned}) > 1:
            raise self.text.error("Q208", trees[1].at, "a union of elements with different parts")
        return Rows(Union(tuple(aligned), span=self.text.span(trees[1].at)), first.element)

    def _literal(self, tree: t.BagOf | t.ListOf, names: Names, context: Context | None) -> Rows:
        if not tree.items:
            raise self.text.error(
                "Q110",
                tree.at,
                "an empty collection, whose elements have no type",
                "Select from a collection with a false condition.",
            )
        parts = []
        for place, one in enumerate(tree.items):
            block = Block(*context) if context else Block()
            element = self.single(self.term(one, names, block), one.at, block)
            parts.append(
                self.finished(block, element, context, [literal(place)] if isinstance(tree, t.ListOf) else [])
            )
        if len({shape(one.element) for one in parts}) > 1:
            raise self.text.error("Q204", tree.at, "elements of different shapes in one collection")
        first = parts[0]
        node = (
            Union(tuple(one.node for one in parts), span=self.text.span(tree.at))
            if len(parts) > 1
            else first.node
        )
        return Rows(node, first.element, first.order, len(parts))

    def closed(self, tree: t.Tree, names: Names) -> Term | None:
        """Return an expression that adds nothing to the enclosing rows: one over their columns, or `One`. None if it must add something."""
        block = Block()
        try:
            term = self.term(tree, names, block)
            if not block.steps:
                return term
            if not isinstance(term, Value | Fields):
                return None
            rows = self.finished(block, self.single(term, tree.at, block), None)
        except NeedsRows:
            return None
        return One(rows.node, rows.element)


def _require_of_groups(block: Block) -> None:
    """Let a block, and the blocks that its groups are made of, have the columns of their conditions and groups."""
    below: Block | None = block
    while below is not None:
        below.require(*below.conditions)
        if not isinstance(below.base, Grouped):
            break
        group, below = below.base, below.base.before
        arguments = [
            one
            for _, each in group.aggregates
            for one in (*each.arguments, *([each.where] if each.where else []))
        ]
        below.require(*(one for _, one in group.keys), *arguments)


def _columns(element: Term) -> list[str]:
    return [one.name for one in leaves(element)]


def _parts(tree: t.Tree | None, term: Fields) -> list[t.Tree | None]:
    if isinstance(tree, t.TupleOf) and len(tree.items) == len(term.items):
        return list(tree.items)
    return [None] * len(term.items)


def _unused(hint: str, names: dict[str, Scalar]) -> str:
    name, number = hint, 1
    while name.lower() in {one.lower() for one in names}:
        number += 1
        name = f"{hint}_{number}"
    return name
