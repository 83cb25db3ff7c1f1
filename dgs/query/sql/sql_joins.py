"""The FROM of a SQL query: its tables, joined from left to right by equalities and the other conditions.

If all joins are inner, the conditions of WHERE take part, so that `from a, b where a.x = b.x` is a join by an equality; and a
condition on one table filters its rows before they are joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from dgs.query.relation import Expand, Fields, Join, Map, Relation, Where
from dgs.query.scalar import Scalar, all_of, call, column
from dgs.query.sql.sql_scopes import Range, Scope
from dgs.query.sql.sql_syntax import SqlText

Pair = tuple[Scalar, Scalar]
How = Literal["inner", "left", "full"]


def parts_of(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the conjuncts of a condition in the text, or of a WHERE or HAVING; none if there is no condition."""
    if tree is None or (isinstance(tree, exp.Boolean) and tree.this):
        return []
    if isinstance(tree, (exp.Where, exp.Having)):
        return parts_of(tree.this)
    if isinstance(tree, exp.Paren) and isinstance(tree.this, (exp.And, exp.Paren)):
        return parts_of(tree.this)
    if isinstance(tree, exp.And):
        return [one for part in tree.flatten(unnest=False) for one in parts_of(part)]
    return [tree]


def names_in(tree: exp.Expr) -> list[exp.Column]:
    """Return the columns that an expression names, without those in its nested queries."""
    nested = (exp.Select, exp.SetOperation)
    return [
        one for one in tree.walk(prune=lambda node: isinstance(node, nested)) if isinstance(one, exp.Column)
    ]


def is_plain(tree: exp.Expr) -> bool:
    """Return whether an expression has no nested query in it."""
    return tree.find(exp.Select, exp.SetOperation) is None


class Joins:
    """The tables of a FROM as one relation. `lower`: the scalar of a tree in a scope; `relation`: that of a table or a derived one."""

    def __init__(
        self,
        text: SqlText,
        lower: Callable[[exp.Expr, Scope], Scalar],
        relation: Callable[[exp.Expr], Relation],
        tree: exp.Select,
    ) -> None:
        self._text, self._lower, self._relation = text, lower, relation
        self._joins = tree.args.get("joins") or []
        self.are_inner = all(not one.side for one in self._joins)
        self.waiting = (
            [one for one in parts_of(tree.args.get("where")) if is_plain(one)] if self.are_inner else []
        )
        self.scope = Scope()
        self.node: Relation | None = None
        first = tree.args.get("from_")
        if first is not None:
            self._add(first.this, None)
            for one in self._joins:
                self._add(one.this, one)

    def _add(self, tree: exp.Expr, join: exp.Join | None) -> None:
        if isinstance(tree, exp.Unnest):
            self._expand(tree)
            return
        relation = self._relation(tree)
        alias = tree.alias_or_name or "subquery"
        if any(one.name.lower() == alias.lower() for one in self.scope.ranges):
            raise self._text.error(
                "Q202",
                tree,
                f"two tables are named {alias!r} here",
                "Give one of them another name: `from t as u`.",
            )
        own = self._range(tree, alias, relation)
        if join is not None and self.node is not None:
            relation, own = self._renamed(relation, own)
            self._join(relation, own, join)
            return
        self.scope = Scope((own,))
        self.node = self._filtered(relation, self.scope)
        for inner in tree.args.get("joins") or []:  # `from (a join b on ...)`
            self._add(inner.this, inner)

    def _range(self, tree: exp.Expr, alias: str, relation: Relation) -> Range:
        """Return the columns of a table under its name, with the names that `as t(a, b)` gives them."""
        names = list(relation.schema.names)
        given = tree.args.get("alias")
        others = [one.name for one in (given.columns if isinstance(given, exp.TableAlias) else [])]
        if len(others) > len(names):
            raise self._text.error(
                "Q206", tree, f"{alias} has {len(names)} columns, and {len(others)} names are given"
            )
        return Range(alias, tuple(zip([*others, *names[len(others) :]], names, strict=True)))

    def _renamed(self, relation: Relation, own: Range) -> tuple[Relation, Range]:
        """Return a relation whose fields differ from earlier ones, and its columns."""
        before = () if self.node is None else self.node.schema.names
        taken = {name.lower() for name in (*self.scope.fields, *before)}
        fields = {
            field: field if field.lower() not in taken else f"{own.name}.{field}" for _, field in own.columns
        }
        if all(new == before for before, new in fields.items()):
            return relation, own
        mapped: Fields = tuple((new, column(before)) for before, new in fields.items())
        columns = tuple((name, fields[field]) for name, field in own.columns)
        return Map(relation, mapped, span=relation.span), Range(own.name, columns)

    def _filtered(self, relation: Relation, scope: Scope) -> Relation:
        """Filter a table by the conditions on it alone."""
        mine = [
            one
            for one in self.waiting
            if names_in(one) and all(map(scope.has, names_in(one))) and self._is_whole(one, scope)
        ]
        self.waiting = [one for one in self.waiting if one not in mine]
        conditions = [self._lower(one, scope) for one in mine]
        return Where(relation, all_of(conditions), span=relation.span) if conditions else relation

    def _is_whole(self, tree: exp.Expr, scope: Scope) -> bool:
        """Return whether no other table of the FROM makes a name of a condition ambiguous; otherwise the error is raised later."""
        others = {one.this.alias_or_name for one in self._joins} - {one.name for one in scope.ranges}
        return not others or all(one.table for one in names_in(tree))

    def _join(self, right: Relation, own: Range, join: exp.Join) -> None:
        """Join a relation to the FROM clause so far. Conditions become pairs of keys, a filter of one side, or the residual."""
        if self.node is None:
            return
        how, is_swapped = _how(join)
        apart = Scope((own,))
        together = self.scope.with_range(own)
        using = join.args.get("using") or []
        pairs = [self._using(one, own) for one in using]
        given = parts_of(join.args.get("on"))
        if how == "inner":
            right = self._filtered(right, apart)
            fitting = [
                one
                for one in self.waiting
                if all(map(together.has, names_in(one))) and self._is_whole(one, together)
            ]
            self.waiting = [one for one in self.waiting if one not in fitting]
            given += fitting
        rest: list[Scalar] = []
        for one in given:
            pair = self._pair(one, apart)
            if pair is not None:
                pairs.append(pair)
            elif (
                how == "left"
                and not is_swapped
                and is_plain(one)
                and names_in(one)
                and all(map(apart.has, names_in(one)))
            ):
                right = Where(right, self._lower(one, apart), span=self._text.span(one))
            else:
                rest.append(self._lower(one, together))
        left: Relation = self.node
        if is_swapped:
            left, right, pairs = right, left, [(b, a) for a, b in pairs]
        residual = all_of(rest) if rest else None
        self.node = Join(left, right, tuple(pairs), residual, how, span=self._text.span(join))
        self.scope = self._merged(own, [one.name for one in using], how, is_swapped=is_swapped)

    def _pair(self, tree: exp.Expr, right: Scope) -> Pair | None:
        """Return the sides of an equality between earlier tables and the new one, None for any other condition."""
        if not isinstance(tree, exp.EQ) or not is_plain(tree):
            return None
        sides = (tree.left, tree.right)
        for one, other in (sides, sides[::-1]):
            of_left, of_right = names_in(one), names_in(other)
            if not of_left or not of_right:
                continue
            if all(map(self.scope.has, of_left)) and all(map(right.has, of_right)):
                both = self.scope.with_range(right.ranges[0])
                for name in (*of_left, *of_right):
                    both.field(name, self._text)  # raises for an ambiguous name
                return self._lower(one, self.scope), self._lower(other, right)
        return None

    def _using(self, name: exp.Expr, own: Range) -> Pair:
        wanted = exp.column(name.copy())
        wanted.this.meta.update(name.meta)
        right = Scope((own,))
        return self._lower(wanted, self.scope), self._lower(wanted.copy(), right)

    def _merged(self, own: Range, names: list[str], how: How, *, is_swapped: bool) -> Scope:
        """Return the tables after a join; a column of USING is that of the side whose rows are all kept."""
        scope, using = self.scope.with_range(own), dict(self.scope.using)
        for name in names:
            left, right = self.scope.field(exp.column(name), self._text), own.named(name) or name
            using[name.lower()] = (
                self._either(left, right) if how == "full" else right if is_swapped else left
            )
        return replace(scope, using=using)

    def _either(self, left: str, right: str) -> str:
        """Add a column with the value of whichever side has one; return its name."""
        if self.node is None:
            return left
        name = f"{left} or {right}"
        fields: Fields = tuple((one, column(one)) for one in self.node.schema.names)
        self.node = Map(self.node, (*fields, (name, call("coalesce", column(left), column(right)))))
        return name

    def _expand(self, tree: exp.Unnest) -> None:
        """Add a row for each item of a list."""
        if self.node is None or len(tree.expressions) != 1:
            raise self._text.error("Q110", tree, "not supported: `unnest` of a constant, or of several lists")
        given = tree.args.get("alias")
        names = [one.name for one in given.columns] if isinstance(given, exp.TableAlias) else []
        alias = tree.alias or "unnest"
        name = names[0] if names else "unnest"
        taken = map(str.lower, self.node.schema.names)
        field = name if name.lower() not in taken else f"{alias}.{name}"
        items = self._lower(tree.expressions[0], self.scope)
        self.node = Expand(self.node, items, field, span=self._text.span(tree))
        self.scope = self.scope.with_range(Range(alias, ((name, field),)))


def _how(join: exp.Join) -> tuple[How, bool]:
    """Return how two sides are joined, and whether they are exchanged: a right join is a left join from the other side."""
    if join.side == "FULL":
        return "full", False
    return ("left", join.side == "RIGHT") if join.side else ("inner", False)
