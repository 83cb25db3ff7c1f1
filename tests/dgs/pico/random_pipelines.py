"""Random pipelines over pairs of small numbers, with their streams."""

from hypothesis import strategies as st

from dgs.pico import (
    filter,  # noqa: A004 - the name in dgs.pico
    flat_map,
    fold_reduce,
    from_stream,
    join_fold_reduce,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    p,
    pair,
    reduce,
    to,
    tumbling,
    w,
    w_p,
    window,
)

STRUCTURES = ["bag", "list", "stream", "windowed"]


def added(a, b):
    return (max(a[0], b[0]), a[1] + b[1])


def key(pair):
    return pair[0]


def parity(pair):
    return pair[1] % 2


TOTAL = reduce(added)
SUMS = fold_reduce(lambda s, x: (max(s[0], x[0]), s[1] + x[1]), (0, 0), added)
ORDERED = fold_reduce(
    lambda s, x: (x[0], (s[1] * 7 + x[1]) % 1000, s[2] * 7 % 1000),
    (0, 0, 1),
    lambda s, t: (t[0], (s[1] * t[2] + t[1]) % 1000, s[2] * t[2] % 1000) if t[2] != 1 else s,
    commutative=False,
)
PRODUCT = join_fold_reduce(lambda s, a, b: (max(s[0], a[0]), s[1] + a[1] * b[1]), (0, 0), added)

elements = st.lists(
    st.tuples(st.integers(0, 2), st.tuples(st.integers(0, 3), st.integers(0, 5))), max_size=14
).map(lambda rows: [(sum(step for step, _ in rows[: n + 1]), value) for n, (_, value) in enumerate(rows)])
streams = st.fixed_dictionaries({"a": elements, "b": elements})
partials = st.sampled_from(["emit", "drop"])
counts = st.builds(
    lambda slide, more, partial: window(slide + more, slide, "count", partial=partial),
    st.integers(1, 3),
    st.integers(0, 2),
    partials,
)
times = st.builds(
    lambda slide, n: window(4 * slide * n, 4 * slide, "time"), st.integers(1, 2), st.integers(1, 2)
)
single = st.sampled_from(
    [
        map(lambda x: (x[0], x[1] + 1)),
        map(lambda x: (x[1] % 3, x[0])),
        filter(lambda x: x[1] != 2),
        flat_map(lambda x: [x, (x[0], x[1] + 10)][: x[1] % 3]),
    ]
)
keys = st.sampled_from([key, parity])
pair_again = map(lambda x: (x[0], x[1]))


def source(name, structure):
    if structure == "windowed":
        return new(from_stream(name, window=tumbling(4, "time")))
    return new(from_stream(name, structure=structure))


def combines(structure):
    """Return operators on whole collections that fit a structure."""
    kinds = [TOTAL, SUMS] if structure == "bag" else [TOTAL, SUMS, ORDERED]
    kind, windows = st.sampled_from(kinds), times if structure == "windowed" else counts | times
    bounded = kind | st.builds(p, kind, keys)
    windowed = st.builds(w, kind, windows) | st.builds(w_p, kind, keys, windows)
    return {"bag": bounded, "list": bounded | windowed, "stream": windowed, "windowed": bounded | windowed}[
        structure
    ]


@st.composite
def pipelines(draw, structure, *, most=3):
    """Draw a pipeline over the streams a and b."""
    head = source("a", structure)
    if draw(st.booleans()):
        head += draw(st.sampled_from([source("b", structure), source("a", structure) | new(draw(single))]))
    head = chain(draw, head, structure, most)
    shape = draw(st.sampled_from(["chain", "to", "pair"]))
    if shape == "to":
        branches = [chain(draw, new(draw(single)), structure, 1) for _ in range(2)]
        return chain(draw, to(head, *branches), structure, 1)
    if shape == "pair":
        product = draw(st.just(PRODUCT) | st.builds(p, st.just(PRODUCT), keys))
        if structure in ("list", "stream"):
            over = draw(counts if structure == "stream" else st.none() | counts)
            product = product if over is None else w(product, over)
        return pair(head, chain(draw, source("b", structure), structure, 1), product)
    return head


def chain(draw, head, structure, most):
    for _ in range(draw(st.integers(0, most))):
        head |= new(draw(single | combines(structure)))
        head |= new(pair_again)
    return head
