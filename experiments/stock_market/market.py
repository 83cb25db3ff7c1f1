"""The stock market of the paper on PiCo (Algorithms 2 to 5): statistics of prices, warnings, and warnings beside tweets.

Windows have ten prices of a ticker, and a new window begins with every fifth price.
"""

from __future__ import annotations

import math
from typing import Any

from dgs.flow.panes import Partial, Window
from dgs.pico import (
    Pipeline,
    filter,  # noqa: A004 - the usual name
    first,
    fold_reduce,
    from_stream,
    join_fold_reduce,
    map,  # noqa: A004 - the paper's name
    new,
    pair,
    reduce,
    second,
    to,
    w,
    w_p,
    window,
)

Price = tuple[str, int]
Rows = dict[str, Any]
LARGE = 9500
"""The least fluctuation that causes a warning, in hundredths of a percent."""


def priced(row: Rows) -> Price:
    """Return ticker and price of a row."""
    return row["ticker"], row["price"]


read_prices = new(from_stream("prices_a")) + new(from_stream("prices_b")) | new(map(priced))
read_tweets = new(from_stream("tweets")) | new(map(priced))
gather = fold_reduce(lambda some, one: [*some, one], [], lambda a, b: a + b, commutative=False)


def ten(partial: Partial = "drop") -> Window:
    """Return windows of ten elements, one every five."""
    return window(10, 5, "count", partial=partial)


def stats(partial: Partial = "emit") -> Pipeline:
    """Return least, largest and mean price of each window: ["min", ticker, price] and so on. `partial`: also of windows that the end cuts short."""
    low = w_p(reduce(lambda a, b: min(a, b, key=second)), by=first, over=ten(partial))
    high = w_p(reduce(lambda a, b: max(a, b, key=second)), by=first, over=ten(partial))
    total = fold_reduce(
        lambda state, one: (one[0], state[1] + 1, state[2] + one[1]),
        ("", 0, 0),
        lambda a, b: (a[0] or b[0], a[1] + b[1], a[2] + b[2]),
    )
    return to(
        read_prices,
        new(low) | new(map(lambda price: ["min", *price])),
        new(high) | new(map(lambda price: ["max", *price])),
        new(w_p(total, by=first, over=ten(partial))) | new(map(lambda it: ["mean", it[0], it[2] / it[1]])),
    )


def fluctuation(prices: list[Price]) -> Price:
    """Return the ticker of a window, and by how much its prices differ, in hundredths of a percent of the largest."""
    values = [value for _, value in prices]
    return prices[0][0], (max(values) - min(values)) * 10_000 // max(values)


warnings = (
    read_prices
    | new(w_p(gather, by=first, over=ten()))
    | new(map(fluctuation))
    | new(filter(lambda warning: warning[1] >= LARGE))
)

product = join_fold_reduce(
    lambda state, warning, tweet: (warning[0], state[1] + warning[1] * tweet[1]),
    ("", 0),
    lambda a, b: (a[0] or b[0], a[1] + b[1]),
)
correlated = pair(warnings, read_tweets, w_p(product, by=first, over=window(10, 10, "count")))
"""The sum of all products of ten warnings and ten tweets of a ticker."""

fx = (
    new(from_stream("bids"))
    | new(w(gather, over=ten()))
    | new(map(lambda bids: [min(bids), max(bids), math.fsum(bids) / len(bids)]))
)
"""Least, largest and mean bid of each window of a currency."""
