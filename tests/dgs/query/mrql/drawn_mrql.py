"""Random selects of MRQL, nested in FROM, WHERE and the head, correlated or not, from a seed."""

from __future__ import annotations

from random import Random

TABLES = {"R": ("k", "x"), "S": ("k", "y")}


class Drawn:
    """Draws one text. `number` makes names that occur once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0

    def name(self, hint: str) -> str:
        """Return a new variable."""
        self.number += 1
        return f"{hint}{self.number}"

    def select(self, scope: list[str], width: int, depth: int) -> str:
        """Return a select of tuples of a width, of numbers if it is 1. `scope`: expressions over the rows around."""
        inside, bags = list(scope), []
        generators = [self.generator(inside, bags, depth) for _ in range(self.random.choice((1, 1, 2)))]
        text = f"from {', '.join(generators)}"
        if self.random.random() < 0.6:
            text += f" where {self.condition(inside, depth)}"
        if self.random.random() < 0.4:
            key = self.name("g")
            text += f" group by {key}: {self.expression(inside, 0)}"
            if self.random.random() < 0.4:
                text += f" having {self.lifted(bags)} > {self.random.randint(0, 2)}"
            items = [
                self.random.choice((key, self.lifted(bags), self.lifted(bags), *scope[:1]))
                for _ in range(width)
            ]
        else:
            items = [self.expression(inside, depth) for _ in range(width)]
        head = items[0] if width == 1 else f"({', '.join(items)})"
        return f"select {'distinct ' if self.random.random() < 0.2 else ''}{head} {text}"

    def generator(self, inside: list[str], bags: list[tuple[str, str]], depth: int) -> str:
        """Return a generator. Its variables are added to the expressions, and to the bags after grouping."""
        kind = self.random.choice(
            ("table", "table", "table", "literal", "value", *(["nested"] * 2 if depth else []))
        )
        if kind == "table":
            table, name = self.random.choice(list(TABLES)), self.name("v")
            for field in TABLES[table]:
                inside.append(f"{name}.{field}")
                bags.append((name, f".{field}"))
            return f"{name} in {table}"
        if kind == "nested":
            names = [self.name("a"), self.name("b")]
            of = self.select(inside, 2, depth - 1)
            inside += names
            bags += [(name, "") for name in names]
            return f"({', '.join(names)}) in ({of})"
        name = self.name("w")
        parts = [self.expression(inside, 0) for _ in range(2)]
        inside.append(name)
        bags.append((name, ""))
        return f"{name} in {{{', '.join(parts)}}}" if kind == "literal" else f"{name} = {parts[0]}"

    def expression(self, scope: list[str], depth: int) -> str:
        """Return a number."""
        kind = self.random.random()
        if depth and kind < 0.3:
            return self.aggregate(scope, depth)
        if scope and kind < 0.8:
            return self.random.choice(scope)
        if len(scope) > 1 and kind < 0.9:
            return f"({self.random.choice(scope)} {self.random.choice('+-*')} {self.random.choice(scope)})"
        return str(self.random.randint(0, 3))

    def aggregate(self, scope: list[str], depth: int) -> str:
        """Return an aggregate of a nested select."""
        return f"{self.random.choice(('count', 'sum', 'max', 'min'))}({self.select(scope, 1, depth - 1)})"

    def lifted(self, bags: list[tuple[str, str]]) -> str:
        """Return an aggregate of a variable bound before `group by`."""
        name, field = self.random.choice(bags)
        aggregate = self.random.choice(("count", "sum", "max", "min"))
        if self.random.random() < 0.3:
            one = self.name("e")
            return f"{aggregate}(select {one}{field} from {one} in {name} where {one}{field} > {self.random.randint(0, 2)})"
        return f"{aggregate}({name}{field})"

    def condition(self, scope: list[str], depth: int) -> str:
        """Return a condition."""
        sign = self.random.choice(("=", "=", "<", ">", "<>"))
        kind = self.random.random()
        if kind < 0.2:
            return f"{self.condition(scope, depth)} and {self.condition(scope, 0)}"
        if depth and kind < 0.45:
            one, table = self.name("q"), self.random.choice(list(TABLES))
            inner = [*scope, *(f"{one}.{field}" for field in TABLES[table])]
            word = self.random.choice(("some", "all", "not some"))
            sides = f"{one}.k {sign} {self.expression(inner, depth - 1)}"
            return f"{word.replace('some', '(some').replace('all', '(all')} {one} in {table}: {sides})"
        return f"{self.expression(scope, depth)} {sign} {self.expression(scope, 0)}"
