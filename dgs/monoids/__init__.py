"""Ready-made monoids for programs that accumulate, and programs made of a monoid: `Windows` and `KeyedWindows`.

A monoid folds a column at a time, or many windows in one call. Monoids can be combined.

- `contract`: what a monoid is; `sums`, `exact`, `extremes`, `ordered`, `sets`: simple ones; `products`, `maps`: made of others.
- `windows`, `keyed_windows`: programs made of a monoid.

>>> SUM.join(SUM.fold([1, 2]), SUM.lift(3)), MAX.fold([1, 2]), MEAN.result(MEAN.fold([1, 2]))
(6, 2, 1.5)
>>> MapOf(COUNT, value=None).fold([{"key": "a"}, {"key": "b"}, {"key": "a"}])
{'a': 2, 'b': 1}
"""

from dgs.monoids.contract import Monoid
from dgs.monoids.exact import MEAN_EXACT, SUM_EXACT, MeanExact, SumExact
from dgs.monoids.extremes import MAX, MIN, Max, Min
from dgs.monoids.keyed_windows import KeyedWindows
from dgs.monoids.maps import MapOf
from dgs.monoids.ordered import Latest, Top
from dgs.monoids.products import AllOf, FieldOf
from dgs.monoids.sets import DISTINCT, Distinct
from dgs.monoids.sums import COUNT, MEAN, SUM, Count, Mean, Sum
from dgs.monoids.windows import Windows

__all__ = [
    "COUNT", "DISTINCT", "MAX", "MEAN", "MEAN_EXACT", "MIN", "SUM", "SUM_EXACT", "AllOf", "Count", "Distinct",
    "FieldOf", "KeyedWindows", "Latest", "MapOf", "Max", "Mean", "MeanExact", "Min", "Monoid", "Sum",
    "SumExact", "Top", "Windows",
]  # fmt: skip
