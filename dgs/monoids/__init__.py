"""Ready-made monoids for programs that accumulate: folded a column at a time, and many windows in one call.

>>> SUM.join(SUM.fold([1, 2]), SUM.lift(3)), MAX.fold([1, 2]), MEAN.result(MEAN.fold([1, 2]))
(6, 2, 1.5)
>>> MapOf(COUNT, value=None).fold([{"key": "a"}, {"key": "b"}, {"key": "a"}])
{'a': 2, 'b': 1}
"""

from dgs.monoids.contract import Monoid
from dgs.monoids.extremes import MAX, MIN, Max, Min
from dgs.monoids.maps import MapOf
from dgs.monoids.sums import COUNT, MEAN, SUM, Count, Mean, Sum

__all__ = ["COUNT", "MAX", "MEAN", "MIN", "SUM", "Count", "MapOf", "Max", "Mean", "Min", "Monoid", "Sum"]
