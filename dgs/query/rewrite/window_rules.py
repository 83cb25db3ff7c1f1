"""Phase windows: filters go below windows, and windows that nothing reads are left out."""

from __future__ import annotations

from dgs.query.relation import Map, Relation, Where, Window
from dgs.query.rewrite.push_rules import below
from dgs.query.rewrite.rule_language import Rules
from dgs.query.scalar import call, column, columns_of

WINDOWS = Rules("windows", "windows")


@WINDOWS.to_merge(Where, Window)
def filter_below_window(parent: Where, child: Window) -> Relation | None:
    """Filter before a row is put into windows, by conditions that do not read the window's end."""
    return below(parent, child, {name: column(name) for name in child.input.schema.names})


@WINDOWS.to_merge(Map, Window)
def unread_window(parent: Map, child: Window) -> Relation | None:
    """Leave out windows whose end nothing reads, if a row is in one of them: a row without a time is in none."""
    is_read = any(child.as_ in columns_of(one) for _, one in parent.fields)
    if is_read or child.size != child.slide:
        return None
    return parent.with_inputs(
        (Where(child.input, call("not", call("isnull", column(child.at))), span=child.span),)
    )
