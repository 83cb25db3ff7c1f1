"""Scripts of MRQL as scripts of the algebra: each statement defines a name or is an output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from dgs.query.errors import QueryError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_blocks import Block, NeedsRows
from dgs.query.mrql.mrql_parser import QueryText, parse_statement, statements_of
from dgs.query.mrql.mrql_readers import Readers
from dgs.query.mrql.mrql_terms import Fields, Names, One, Routine, Rows, Term, UserAggregation, Value, leaves
from dgs.query.parameters import Parameters
from dgs.query.relation import Key, Map, Order, Relation, Script, Source
from dgs.query.scalar import column, literal


def script(
    text: str,
    sources: Mapping[str, Source],
    *,
    name: str = "query.mrql",
    params: Mapping[str, Any] | None = None,
) -> Script:
    """Return the script of a text. `sources`: streams and tables by name; `params`: values by name; `name`: the file, for errors.

    Statements outside of the subset (Q110), and statements that need them, are left out, as long as an output is left. Any other mistake is
    raised as QueryError.
    """
    found = _Script(QueryText(name, text), sources, params or {}).whole()
    if not found.outputs:
        if found.refused:
            raise found.refused[0]
        raise QueryText(name, text).error(
            "Q101", (1, 1), "a script without an output", "End with an expression, or `store`."
        )
    return found


class _Script(Readers):
    """Reads the statements of a script, in order."""

    def __init__(self, text: QueryText, given: Mapping[str, Source], params: Mapping[str, Any]) -> None:
        super().__init__(text, given)
        values = Names(Parameters.of(params).made(lambda value: Value(literal(value))))
        self.names = values.with_(
            {name: Rows(one, self.whole_row(one.columns)) for name, one in given.items()}
        )
        self.outputs: dict[str, Relation] = {}
        self.refused: list[QueryError] = []
        self.without: set[str] = set()

    def whole(self) -> Script:
        """Return the outputs of all statements."""
        for statement in statements_of(self.text.text):
            try:
                self._statement(parse_statement(self.text, statement))
            except QueryError as error:
                if not self._is_refused(error, statement):
                    raise
                self.refused.append(error)
        return Script(tuple(self.outputs.items()), tuple(self.refused))

    def _is_refused(self, error: QueryError, statement: str) -> bool:
        """Return whether an error is about a construct outside of the subset, or about a name that such a statement would have defined."""
        is_outside = error.code == "Q110" or (
            error.code == "Q201" and error.facts.get("name") in self.without
        )
        name, sign, _ = statement.strip().partition("=")
        if is_outside and sign and name.strip().isidentifier():
            self.without.add(name.strip())
        return is_outside

    def _statement(self, tree: t.Statement) -> None:
        if isinstance(tree, t.Assign):
            self._define(tree.name, self._whole(tree.value))
        elif isinstance(tree, t.Function):
            self._define(tree.name, Routine(tree, self.names))
        elif isinstance(tree, t.Aggregation):
            self._define(tree.name, UserAggregation(tree, self.names))
        else:
            self._output(tree)

    def _define(self, name: str, term: Term) -> None:
        self.names = self.names.with_({name: term})

    def _whole(self, tree: t.Tree) -> Term:
        """Return the value of an expression that stands alone. Raises QueryError Q110 for a bag of columns that its reader lacks."""
        try:
            return self._alone(tree)
        except NeedsRows:
            problem = "not supported: a bag that is made of the values around it, and read elsewhere"
            raise self.text.error("Q110", tree.at, problem, "Make it where it is read.") from None

    def _alone(self, tree: t.Tree) -> Term:
        """Return the value of an expression: a relation, or one value."""
        if isinstance(tree, t.RepeatOf) and not isinstance(tree.pattern, t.NamePattern):
            items = tuple((f"_{place}", one) for place, one in enumerate(self.loop(tree, self.names)))
            return Fields(items, is_tuple=True)
        block = Block()
        term = self.term(tree, self.names, block)
        if self.is_collection(term) and not block.steps:
            return self.rows(term, tree.at)
        if isinstance(term, Fields) and all(isinstance(one, Rows) for _, one in term.items):
            return term
        if not block.steps and isinstance(term, Value):
            return term
        rows = self.finished(block, self.single(term, tree.at, block), None, head=tree)
        return One(rows.node, rows.element)

    def _output(self, tree: t.Output) -> None:
        name = tree.value.name if isinstance(tree.value, t.Name) else "answer"
        if tree.store is not None:
            name = PurePosixPath(tree.store).name.split(".")[0]
        term = self._whole(tree.value)
        if isinstance(term, Fields) and all(isinstance(one, Rows) for _, one in term.items):
            for place, (_, one) in enumerate(term.items):
                self._put(f"{name}_{place}", self._relation(one))
        else:
            self._put(name, self._relation(term))

    def _put(self, name: str, relation: Relation) -> None:
        unique, number = name, 1
        while unique in self.outputs:
            number += 1
            unique = f"{name}_{number}"
        self.outputs[unique] = relation

    def _relation(self, term: Term) -> Relation:
        """Return the relation of an output, with the columns of its elements, in its order."""
        if isinstance(term, One):
            term = Rows(term.node, term.value)
        if isinstance(term, Value | Fields):
            term = self.finished(Block(), term, None)
        if not isinstance(term, Rows):
            raise TypeError(term)
        node = term.node
        if term.order and not isinstance(node, Order):
            node = Order(node, tuple(Key(column(name)) for name in term.order))
        names = list(dict.fromkeys(one.name for one in leaves(term.element)))
        if tuple(names) == node.schema.names:
            return node
        return Map(node, tuple((name, column(name)) for name in names))
