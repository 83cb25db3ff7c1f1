"""A query that is answered window by window has the rows of the query over all windows, for random queries."""

from collections import Counter
from random import Random

from dgs.query.evaluate import ZBag, answers
from dgs.query.relation import Group, Join, Map, Relation, Script, Source, Window, column
from dgs.query.windowing.window_panes import Windowed, windowed
from tests.dgs.query.drawn import Drawing, total
from tests.selection import seeds


class InWindows(Drawing):
    """A random query that reads its streams through equal windows by their first column. Half of the groups and joins are by window."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fixed = Source("fixed", self.streams["r"].columns, changes=False)
        self.size, self.slide = self.random.choice(((2, 2), (3, 1), (2, 1), (3, 2)))

    def _read(self, depth: int = 0) -> Relation:
        if self.random.random() < 0.1:
            return self._renamed(self.fixed)
        source = self.random.choice(list(self.streams.values()))
        return self._renamed(Window(source, self.size, self.slide, at=f"{source.name}0", as_="end"))

    _window = _read

    def _join(self, depth: int) -> Relation:
        made = super()._join(depth)
        assert isinstance(made, Join)
        left, right = (self.end(one.schema.names) for one in (made.left, made.right))
        if left is None or right is None or self.random.random() < 0.3:
            return made
        pairs = ((column(left), column(right)), *made.pairs)
        return Join(made.left, made.right, pairs, made.residual, made.how)

    def _group(self, depth: int) -> Relation:
        made = super()._group(depth)
        assert isinstance(made, Group)
        end = self.end(made.input.schema.names)
        if end is None or self.random.random() < 0.2:
            return made
        self.number += 1
        return Group(made.input, (*made.keys, (f"{self.number}_end", column(end))), made.aggregates)

    def _renamed(self, relation: Relation) -> Relation:
        self.number += 1
        return Map(
            relation,
            tuple(
                (f"{self.number}_{place}{'end' if name.endswith('end') else ''}", column(name))
                for place, name in enumerate(relation.schema.names)
            ),
        )

    def _map(self, depth: int) -> Relation:
        made = super()._map(depth)
        assert isinstance(made, Map)
        end = self.end(made.input.schema.names)
        kept = () if end is None or self.random.random() < 0.2 else ((f"{self.number}_end", column(end)),)
        return Map(made.input, (*made.fields, *kept))

    @staticmethod
    def end(names: tuple[str, ...]) -> str | None:
        """Return the last column that is called as the end of a window."""
        return next((name for name in reversed(names) if name.endswith("end")), None)


def by_window(whole: Windowed, tables: dict[str, ZBag], fixed: ZBag) -> Counter[tuple[object, ...]]:
    """Return the rows of the answers of all windows that hold a row of a stream."""
    found: Counter[tuple[object, ...]] = Counter()
    size, slide = whole.panes.size, whole.panes.slide
    for end in [start + size for start in range(-20, 20) if not start % slide]:
        inside = {
            name: {row: n for row, n in bag.items() if row[0] is not None and end - size <= row[0] < end}
            for name, bag in tables.items()
        }
        if any(inside.values()):
            ((name, rows),) = answers(whole.script, inside | {"fixed": fixed}).items()
            places = [whole.script.outputs[0][1].schema.index(one) for one in whole.ends[name]]
            found.update(tuple(_ended(row, places, end)) for row in rows)
    return found


def _ended(row: tuple[object, ...], places: list[int], end: int) -> list[object]:
    return [end if place in places and one is not None else one for place, one in enumerate(row)]


def differs(seed: int) -> bool | None:
    """Whether the answers of the single windows differ from the answer of a random query; None if it has none."""
    drawing = InWindows(Random(seed), deletes=False)
    query = drawing.query()
    whole = windowed(Script.of(query))
    if whole is None:
        return None
    tables = total(drawing.streams, drawing.history())
    fixed: ZBag = {drawing.row(drawing.fixed): 1 for _ in range(2)}
    (rows,) = answers(Script.of(query), tables | {"fixed": fixed}).values()
    return by_window(whole, tables, fixed) != Counter(rows)


@seeds(1000)
def test_answers_of_single_windows_are_the_answer_of_the_query(seeds: range) -> None:
    found = Counter(map(differs, seeds))
    assert found[False] > len(seeds) / 10
    assert not found[True]
