"""The recorded outputs of the programs of PiCo's authors, reproduced by our pipelines."""

import gzip
import re
from collections import Counter

import pytest

from dgs.pico import (
    first,
    flat_map,
    from_stream,
    join_fold_reduce,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    p,
    pair,
    reduce,
    second,
    tumbling,
    w_p,
    window,
)
from tests.dgs.flow.published import SHARED
from tests.dgs.pico.pipelines import word_count

UPSTREAM = SHARED / "cases" / "upstream" / "pico"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not UPSTREAM.is_dir(), reason="the cases are not beside the checkout"),
]


def parsed(line):
    key, value = re.fullmatch(r"<(\w+), (-?\d+)>", line).groups()
    return key, int(value)


def added(a, b):
    return a[0], a[1] + b[1]


def text(name):
    path = UPSTREAM / name
    return gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text()


def numbered(values):
    return list(enumerate(values))


def recorded(name):
    return Counter(text(f"{name}.expected.txt").splitlines())


def as_lines(values):
    return Counter(f"<{key}, {value}>" for key, value in values)


def both(pipeline, **streams):
    """Return the outputs of a pipeline by its definition and by its run."""
    inputs = {name: numbered(values) for name, values in streams.items()}
    return pipeline.denote(inputs), pipeline.run(streams=inputs).outputs


def test_reduce_by_key():
    pipeline = new(from_stream("pairs", structure="bag")) | new(map(parsed)) | new(p(reduce(added), by=first))
    for found in both(pipeline, pairs=text("pairs.txt").splitlines()):
        assert len(found) == 26
        assert as_lines(found) == recorded("pairs.reduce_by_key")


def test_sums_of_windows_of_two():
    sums = w_p(reduce(added), by=first, over=tumbling(2, partial="emit"))
    pipeline = new(from_stream("pairs")) | new(map(parsed)) | new(sums)
    for found in both(pipeline, pairs=text("pairs.txt").splitlines()):
        assert len(found) == 517
        assert as_lines(found) == recorded("pairs.window2_sum_by_key.partial_emitted")


def counted_copies(state, a, b):
    total = a[1] + b[1]
    return state + Counter({(a[0], total): abs(total) % 10} if total % 2 == 0 else {})


def copies(counts):
    return [pair for pair, count in sorted(counts.items()) for _ in range(count)]


@pytest.mark.slow
def test_join_of_a_stream_with_itself():
    """A sum s of two values of a key is emitted abs(s) % 10 times if it is even."""
    joined = p(join_fold_reduce(counted_copies, Counter(), lambda a, b: a + b), by=first)
    read = new(from_stream("pairs", structure="bag")) | new(map(parsed))
    pipeline = pair(read, read, joined) | new(flat_map(copies))
    rows = [line.split("\t") for line in text("pairs.self_join_even_copies.expected.tsv").splitlines()]
    for found in both(pipeline, pairs=text("pairs.txt").splitlines()):
        assert len(found) == 75_410
        assert as_lines(found) == Counter({key: int(count) for key, count in rows})
    summed = pipeline | new(p(reduce(added), by=first))
    (_, found) = both(summed, pairs=text("pairs.txt").splitlines())
    assert as_lines(found) == recorded("pairs.self_join_even_copies.sum_by_key")


@pytest.mark.parametrize(
    ("partial", "name", "rows"), [("emit", "partial_emitted", 272), ("drop", "full_only", 28)]
)
def test_longest_tweets_of_windows_of_eight(partial, name, rows):
    """The two upstream programs differ in windows that the end cuts short (P6)."""
    stocks = set(text("stock_names.txt").split())

    def named(tweet):
        tokens = tweet.removesuffix(" ").split(" ")
        found = [token for token in tokens if token in stocks]
        return [(found[0], sum(len(token) + 1 for token in tokens))] if len(found) == 1 else []

    over = window(8, 8, "count", partial=partial)
    longest = w_p(reduce(lambda a, b: max(a, b, key=second)), by=first, over=over)
    pipeline = new(from_stream("tweets")) | new(flat_map(named)) | new(longest)
    for found in both(pipeline, tweets=text("tweets.txt.gz").split("-")):
        assert len(found) == rows
        assert as_lines(found) == recorded(f"tweets.window8_max_len.{name}")


def test_word_count():
    pipeline = new(from_stream("lines", structure="bag")) | word_count
    wanted = Counter(text("lines.word_count.expected.txt.gz").splitlines())
    for found in both(pipeline, lines=text("lines.txt.gz").splitlines()):
        assert len(found) == 60_226
        assert as_lines(found) == wanted
