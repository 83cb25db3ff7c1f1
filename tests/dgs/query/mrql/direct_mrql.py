"""The meaning of MRQL by nested loops over its parse tree: no relation, no join. The oracle for the translation.

Bags are lists, tuples are tuples, records are dictionaries, null is None. It covers what `drawn_mrql` draws.
"""

from dgs.query.mrql import mrql_tree as t

SIGNS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def present(items):
    """Return the items that are not null."""
    return [one for one in items if one is not None]


AGGREGATES = {
    "count": len,
    "sum": lambda items: sum(present(items)),
    "min": lambda items: min(present(items), default=None),
    "max": lambda items: max(present(items), default=None),
}


def bound(pattern, value):
    """Return the names that a pattern binds to parts of a value."""
    if isinstance(pattern, t.NamePattern):
        return {pattern.name: value}
    parts = [bound(one, item) for one, item in zip(pattern.items, value, strict=True)]
    return {name: item for part in parts for name, item in part.items()}


def value(tree, names):
    """Return the value of an expression, given the values of names."""
    if isinstance(tree, t.Binary):
        return binary(tree.sign, value(tree.left, names), value(tree.right, names))
    return VALUES[type(tree)](tree, names)


def field(tree, names):
    """Return a field of a record, or of all records of a bag."""
    whole = value(tree.of, names)
    return [one[tree.name] for one in whole] if isinstance(whole, list) else whole[tree.name]


def negated(tree, names):
    """Return `not e`."""
    found = value(tree.of, names)
    return None if found is None else not found


def quantified(tree, names):
    """Return whether some element fulfils the condition, or all."""
    tests = [value(tree.condition, names | bound(tree.pattern, one)) for one in value(tree.source, names)]
    return any(one is True for one in tests) if tree.is_some else all(one is True for one in tests)


def binary(sign, left, right):
    """Return the value of a binary operation: null for nulls, unless one side decides a conjunction."""
    if sign == "and":
        return False if left is False or right is False else None if left is None or right is None else True
    if sign == "+" and isinstance(left, list):
        return left + right
    return None if left is None or right is None else SIGNS[sign](left, right)


def rows(generators, names):
    """Yield the names that generators bind, by nested loops."""
    if not generators:
        yield {}
        return
    (pattern, source), *rest = generators
    items = [value(source.value, names)] if isinstance(source, t.Same) else value(source, names)
    for item in items:
        own = bound(pattern, item)
        for more in rows(rest, names | own):
            yield own | more


def select(tree, names):
    """Return the bag of a select."""
    found = [
        own
        for own in rows(tree.generators, names)
        if tree.where is None or value(tree.where, names | own) is True
    ]
    if tree.group is not None:
        pattern, of = tree.group
        groups = {}
        for own in found:
            groups.setdefault(value(of, names | own), []).append(own)
        found = [
            {name: [own[name] for own in group] for name in group[0]} | bound(pattern, key)
            for key, group in groups.items()
        ]
    found = [own for own in found if tree.having is None or value(tree.having, names | own) is True]
    heads = [value(tree.head, names | own) for own in found]
    return list(dict.fromkeys(heads)) if tree.is_distinct else heads


VALUES = {
    t.Name: lambda tree, names: names[tree.name],
    t.Constant: lambda tree, _: tree.value,
    t.TupleOf: lambda tree, names: tuple(value(one, names) for one in tree.items),
    t.BagOf: lambda tree, names: [value(one, names) for one in tree.items],
    t.FieldOf: field,
    t.Unary: negated,
    t.Call: lambda tree, names: AGGREGATES[tree.name](value(tree.arguments[0], names)),
    t.Quantified: quantified,
    t.Select: select,
}
