"""Pipelines that several tests use: word count, and the stock market of the paper (Algorithms 1 to 5)."""

from dgs.pico import (
    filter,  # noqa: A004 - the name in dgs.pico
    first,
    flat_map,
    fold_reduce,
    from_stream,
    join_fold_reduce,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    p,
    pair,
    reduce,
    second,
    to,
    w_p,
    window,
)

tokenize = flat_map(lambda line: [(word, 1) for word in line.split()], gives=tuple[str, int])
count = p(reduce(lambda a, b: (a[0], a[1] + b[1])), by=first)
word_count = new(tokenize) | new(count)

read_prices = new(from_stream("prices_a")) + new(from_stream("prices_b"))
read_tweets = new(from_stream("tweets"))


def stats(partial):
    omega = window(10, 5, "count", partial=partial)
    low = w_p(reduce(lambda a, b: min(a, b, key=second)), by=first, over=omega)
    high = w_p(reduce(lambda a, b: max(a, b, key=second)), by=first, over=omega)
    folded = fold_reduce(
        lambda a, x: (x[0], a[1] + 1, a[2] + x[1]),
        (None, 0, 0),
        lambda a, b: (a[0] or b[0], a[1] + b[1], a[2] + b[2]),
    )
    return to(
        read_prices,
        new(low) | new(map(lambda r: ["min", *r])),
        new(high) | new(map(lambda r: ["max", *r])),
        new(w_p(folded, by=first, over=omega)) | new(map(lambda a: ["mean", a[0], a[2] / a[1]])),
    )


def fluctuation(values):
    return (max(values) - min(values)) * 10000 // max(values)


gather = fold_reduce(lambda s, x: [*s, x], [], lambda a, b: a + b, commutative=False)
warnings = (
    read_prices
    | new(w_p(gather, by=first, over=window(10, 5, "count", partial="drop")))
    | new(map(lambda xs: (xs[0][0], fluctuation([v for _, v in xs]))))
    | new(filter(lambda nd: nd[1] >= 9500))
)
product = join_fold_reduce(
    lambda s, a, b: (a[0], s[1] + a[1] * b[1]), (None, 0), lambda s, t: (s[0] or t[0], s[1] + t[1])
)
correlated = pair(warnings, read_tweets, w_p(product, by=first, over=window(10, 10, "count", partial="drop")))
