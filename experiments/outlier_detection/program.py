"""Outlier detection in mixed data: the algorithm of Appendix A.1 (Reloaded), with a lawful fork and join.

A connection has categories (texts) and features (integers). An *itemset* is one category or a pair of them with their values. For each
itemset the state has *totals* of the connections that contain it: their number, the sums of their features, and of the products of
every two features about the itemset's centre. A query makes the *model* of the totals: for each frequent itemset its centre, and
the bounds within `tau` standard deviations of the mean of each product.

A connection scores points for each itemset of its own that is infrequent, or beyond the bounds in more than `delta` of the products.
It is a candidate if its score is above `factor` times the mean score. A query merges all totals, makes the new model, and reports
the candidates that are still outliers by that model.

The published merge does not undo the fork, which copies all counts to both sides, and a worker judges by its own part of the data, so
outputs depend on the plan. Here connections are judged by the model of the last query, the same on all workers, and
a fork leaves the totals on one side. Means are merged as sums and counts, all of them integers, so that a join is exact in any order.

>>> from dgs import Event
>>> program, outputs = OutlierDetection(support=2, factor=2.0), []
>>> usual, odd = {"flag": "SF", "bytes": 7, "label": "normal"}, {"flag": "REJ", "bytes": 90, "label": "attack"}
>>> state = program.init()
>>> for number, record in enumerate([usual, usual, None, usual, usual, usual, None, odd, None]):
...     event = Event(QUERY() if record is None else CONNECTION(), "input", number, record)
...     state = program.update(state, event, outputs.append)
>>> outputs[-1]
{'scored': 4, 'candidates': 1, 'outliers': [{'ts': 7, 'label': 'attack', 'score': 2}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

import dgs
from dgs.model import columns
from dgs.vectorised import by_kind, one_by_one

CONNECTION = dgs.kind("connection")
QUERY = dgs.kind("query")
LABEL = "label"
"""The field with the true class of a connection. It is reported, and not used."""
ROWS_AT_ONCE = 256
"""Connections whose products are computed at once: about a megabyte for 34 features."""

Floats = npt.NDArray[np.float64]
Totals = dict[str, npt.NDArray[np.int64]]
"""By itemset: the number of connections, the number with products, then the sums of features, products and squared products."""
Bounds = dict[str, tuple[Floats, Floats, Floats]]
"""By frequent itemset: the centre of the features, and the least and the greatest usual product of every two. All are integers."""
Scores = tuple[int, int]
"""The sum of scores and their number."""
Categories = tuple[tuple[str, str], ...]
"""The categories of a connection with their names, in the order of names."""
Alike = tuple[Categories, columns.Indices]
"""Rows of a batch with the same categories."""
Candidate = tuple[int, str, Categories, tuple[int, ...]]
"""Time, label, categories, features."""
State = tuple[tuple[Scores, Bounds] | None, Totals, Scores, list[Candidate]]
"""The model (None: this part of the state gets no events), and the totals, scores and candidates since the last fork."""


class OutlierDetection(dgs.Program):
    """Emits at every query `{scored, candidates, outliers}`, with `{ts, label, score}` for each outlier since the last one."""

    depends = dgs.Dependence((QUERY, QUERY, dgs.ALWAYS), (QUERY, CONNECTION, dgs.ALWAYS))

    def __init__(
        self, *, support: int = 10, tau: float = 1.96, delta: float = 0.3, factor: float = 4.0
    ) -> None:
        self.support, self.tau, self.delta, self.factor = support, tau, delta, factor

    def init(self) -> State:
        """Return an empty model, and no totals."""
        return ((0, 0), {}), {}, (0, 0), []

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Judge and add a connection, or report the outliers and make the model anew."""
        if event.tag.kind == CONNECTION:
            return self._with_connections(state, np.array([event.ts]), _as_columns([event.payload]))
        _, totals, scores, candidates = state
        model = scores, self.bounds(totals)
        outliers = [
            {"ts": ts, "label": label, "score": score}
            for (ts, label, _, _), score in zip(candidates, self._judged(model[1], candidates), strict=True)
            if self.is_outlier(score, scores)
        ]
        emit({"scored": scores[1], "candidates": len(candidates), "outliers": outliers})
        return model, totals, scores, []

    def update_batch(self, state: State, batch: dgs.EventBatch, emit_batch: Callable[..., None]) -> State:
        """Judge and add all the connections between two queries at once."""
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == CONNECTION:
                state = self._with_connections(state, run.ts, _as_columns(run.payload))
            else:
                state = one_by_one(self.update, state, run, emit)
        return state

    def fork(self, state: State, left: dgs.TagSet, right: dgs.TagSet) -> tuple[State, State]:  # noqa: ARG002 - the contract
        """Copy the model to both sides and leave the rest on the left, or on the right if that side has queries."""
        if QUERY in right:
            return (None, {}, (0, 0), []), state
        model = state[0]
        copied = None if model is None else (model[0], _copied(model[1]))
        return state, (copied, {}, (0, 0), [])

    def join(self, left: State, right: State) -> State:
        """Add the totals and the scores, and put the candidates in order."""
        (sum_left, count_left), (sum_right, count_right) = left[2], right[2]
        return (
            right[0] if left[0] is None else left[0],
            _added(left[1], right[1]),
            (sum_left + sum_right, count_left + count_right),
            sorted([*left[3], *right[3]]),
        )

    def bounds(self, totals: Totals) -> Bounds:
        """Return the bounds of each frequent itemset. Products that are not known well enough have none."""
        found: Bounds = {}
        for itemset, numbers in totals.items():
            count, known = int(numbers[0]), int(numbers[1])
            if count < self.support:
                continue
            features = _features_of(len(numbers))
            sums, products, squares = np.split(numbers[2:], [features, features + _pairs(features)])
            centre = ((2 * sums + count) // (2 * count)).astype(np.float64)
            if known < self.support:
                wide = np.full(len(products), np.inf)
                found[itemset] = centre, -wide, wide
                continue
            mean = products / known
            spread = self.tau * np.sqrt(np.maximum(squares / known - mean * mean, 0.0))
            found[itemset] = centre, np.ceil(mean - spread), np.floor(mean + spread)
        return found

    def is_outlier(self, score: int, scores: Scores) -> bool:
        """Whether a score is far above the mean score. Without scores nothing is."""
        total, count = scores
        return count > 0 and score * count > self.factor * total

    def _with_connections(self, state: State, ts: npt.NDArray[np.int64], batch: Mapping[str, Any]) -> State:
        model, totals, (total, scored), candidates = state
        if model is None:
            raise ValueError("a part of the state without a model gets no connections")
        before, bounds = model
        names = sorted(name for name in batch if name != LABEL and not _is_text(batch[name]))
        features = np.array([columns.numbers(batch[name]) for name in names], dtype=np.float64)
        alike = list(_alike(batch))
        points = self._points(bounds, alike, features, totals)
        if not bounds:
            return model, totals, (total, scored), candidates
        found = [
            _candidate(ts, batch, categories, features, row)
            for categories, rows in alike
            for row in rows.tolist()
            if self.is_outlier(int(points[row]), before)
        ]
        scores = total + int(points.sum()), scored + len(points)
        return model, totals, scores, sorted([*candidates, *found]) if found else candidates

    def _judged(self, bounds: Bounds, candidates: list[Candidate]) -> list[int]:
        """Return the scores of candidates by new bounds."""
        rows: dict[Categories, list[int]] = {}
        for row, candidate in enumerate(candidates):
            rows.setdefault(candidate[2], []).append(row)
        alike = [(categories, np.array(some, dtype=np.intp)) for categories, some in rows.items()]
        features = np.array([candidate[3] for candidate in candidates], dtype=np.float64)
        scores: list[int] = self._points(bounds, alike, features.T).tolist() if candidates else []
        return scores

    def _points(
        self, bounds: Bounds, alike: list[Alike], features: Floats, totals: Totals | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the points of connections; features are float64[features, connections]. With `totals` they are added there.

        An infrequent or violated category gives two points, a pair of categories one.
        """
        points = np.zeros(features.shape[1], dtype=np.int64)
        first, second = np.triu_indices(len(features))
        nothing = np.zeros(len(first))
        for (itemset, size), rows in _rows_by_itemset(alike).items():
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                x, known = features[:, part], bounds.get(itemset)
                if known is None:
                    points[part] += 2 // size
                    count, sums, squares = 0, nothing, nothing
                else:
                    centre, low, high = known
                    about = x - centre[:, np.newaxis]
                    products = about[first] * about[second]
                    beyond = (products < low[:, np.newaxis]) | (products > high[:, np.newaxis])
                    points[part[beyond.sum(axis=0) > self.delta * len(products)]] += 2 // size
                    count, sums = len(part), products.sum(axis=1)
                    squares = np.einsum("ij,ij->i", products, products)
                if totals is not None:
                    more = np.concatenate(([len(part), count], x.sum(axis=1), sums, squares)).astype(np.int64)
                    totals[itemset] = totals[itemset] + more if itemset in totals else more
        return points


def _itemsets(categories: Categories) -> Iterator[tuple[str, int]]:
    """Yield each category and each pair of them, with its size.

    >>> list(_itemsets((("flag", "SF"), ("service", "http"))))
    [('flag=SF', 1), ('service=http', 1), ('flag=SF, service=http', 2)]
    """
    for size in (1, 2):
        for some in combinations(categories, size):
            yield ", ".join(f"{name}={value}" for name, value in some), size


def _rows_by_itemset(alike: list[Alike]) -> dict[tuple[str, int], columns.Indices]:
    """Return the rows that contain each itemset."""
    found: dict[tuple[str, int], list[columns.Indices]] = {}
    for categories, rows in alike:
        for itemset in _itemsets(categories):
            found.setdefault(itemset, []).append(rows)
    return {itemset: np.concatenate(parts) for itemset, parts in found.items()}


def _alike(batch: Mapping[str, Any]) -> Iterator[Alike]:
    """Yield the rows of each combination of categories."""
    names = sorted(name for name in batch if name != LABEL and _is_text(batch[name]))
    kinds = [columns.distinct(batch[name]) for name in names]
    codes = np.zeros(columns.length(dict(batch)), dtype=np.int64)
    for values, code in kinds:
        codes = codes * len(values) + code
    for which in np.unique(codes):
        rows = np.flatnonzero(codes == which)
        some = [(name, values[code[rows[0]]]) for name, (values, code) in zip(names, kinds, strict=True)]
        yield tuple(some), rows


def _as_columns(payload: columns.Column) -> Mapping[str, columns.Column]:
    if isinstance(payload, dict):
        return payload
    records = columns.to_list(payload)
    return {name: [record[name] for record in records] for name in records[0]}


def _is_text(column: columns.Column) -> bool:
    return columns.length(column) > 0 and isinstance(columns.to_list(columns.cut(column, 0, 1))[0], str)


def _candidate(
    ts: Any, batch: Mapping[str, Any], categories: Categories, features: Floats, row: int
) -> Candidate:
    label = columns.to_list(columns.cut(batch[LABEL], row, row + 1))[0]
    return int(ts[row]), label, categories, tuple(map(int, features[:, row].tolist()))


def _added(left: Totals, right: Totals) -> Totals:
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    return large | {
        itemset: large[itemset] + more if itemset in large else more for itemset, more in small.items()
    }


def _copied(bounds: Bounds) -> Bounds:
    return {itemset: (a.copy(), b.copy(), c.copy()) for itemset, (a, b, c) in bounds.items()}


def _pairs(features: int) -> int:
    return features * (features + 1) // 2


def _features_of(length: int) -> int:
    """Return how many features there are if an itemset has so many totals: 2 + n + 2 * n * (n + 1) / 2."""
    return round((length - 1) ** 0.5) - 1
