"""Pipelines on the local runtime: word count on the three structures, sinks, refusals, and the stock market of the paper."""

import json
from collections import Counter

import pytest

import dgs
from dgs.errors import OutputUnwritableError
from dgs.flow import FlowError
from dgs.named_files import ForeignFileError
from dgs.pico import (
    first,
    from_csv,
    from_lines,
    from_stream,
    map,  # noqa: A004 - the name in dgs.pico
    new,
    p,
    reduce,
    to,
    to_jsonl,
    tumbling,
    w,
    w_p,
    window,
)
from tests.dgs.flow.published import DATA, HAS_CASES, digest, expected, named
from tests.dgs.pico.pipelines import word_count

stats, warnings, correlated, fx = named("stock_market/market.py", "stats", "warnings", "correlated", "fx")
prices, tweets, bids = named("stock_market/quotes.py", "prices", "tweets", "bids")
LINES = ["to be or not", "to be", "", "that is the", "question to be"]
STRUCTURES = [{"structure": "bag"}, {"structure": "list"}, {"structure": "stream", "window": tumbling(2)}]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return str(file)


def written(folder):
    return [tuple(json.loads(line)) for line in (folder / "outputs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("how", STRUCTURES, ids=lambda how: how["structure"])
def test_word_count_runs_on_each_structure(path, tmp_path, how):
    pipeline = new(from_lines(path, **how)) | word_count | new(to_jsonl(str(tmp_path / "out")))
    blocks = [LINES[n : n + 2] for n in range(0, len(LINES), 2)] if how["structure"] == "stream" else [LINES]
    counted = [pair for block in blocks for pair in Counter(" ".join(block).split()).items()]
    run = pipeline.run(verify=True)
    assert Counter(run.outputs) == Counter(pipeline.denote()) == Counter(counted)
    assert written(tmp_path / "out") == run.outputs
    if how["structure"] == "list":
        assert run.outputs == pipeline.denote()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("how", STRUCTURES, ids=lambda how: how["structure"])
def test_word_count_runs_on_ray(path, tmp_path, ray_cluster, how):
    pipeline = new(from_lines(path, **how)) | word_count | new(to_jsonl(str(tmp_path / "out")))
    run = pipeline.run(runtime={"kind": "ray", "hosts": 2})
    assert run.report["runtime"] == "ray"
    assert Counter(written(tmp_path / "out")) == Counter(pipeline.denote())


def test_each_sink_gets_its_values(path, tmp_path):
    lengths = new(map(len)) | new(map(lambda n: [n])) | new(to_jsonl(str(tmp_path / "lengths")))
    words = word_count | new(to_jsonl(str(tmp_path / "words")))
    to(new(from_lines(path, structure="list")), lengths, words).run()
    assert written(tmp_path / "lengths") == [(len(line),) for line in LINES]
    assert dict(written(tmp_path / "words")) == Counter(" ".join(LINES).split())


def test_a_run_writes_over_its_own_outputs_and_over_no_other_file(path, tmp_path):
    outputs = tmp_path / "out" / "outputs.jsonl"
    pipeline = new(from_lines(path, structure="list")) | word_count | new(to_jsonl(str(tmp_path / "out")))
    pipeline.run()
    assert written(tmp_path / "out") == pipeline.run().outputs
    with outputs.open("a") as file:
        file.write("a note\n")
    changed = outputs.read_bytes()
    with pytest.raises(ForeignFileError, match="was not made by"):
        pipeline.run()
    assert outputs.read_bytes() == changed


def test_sinks_of_one_folder_write_into_one_file(path, tmp_path):
    folders = [str(tmp_path / "same"), f"{tmp_path}/./same/"]
    lengths, words = (
        new(map(f)) | new(to_jsonl(folder)) for f, folder in zip((len, str.split), folders, strict=True)
    )
    to(new(from_lines(path, structure="list")), lengths, words).run()
    values = [json.loads(line) for line in (tmp_path / "same" / "outputs.jsonl").read_text().splitlines()]
    assert Counter(str(one) for one in values) == Counter(
        str(one) for line in LINES for one in (len(line), line.split())
    )


def test_a_folder_that_cannot_be_made_is_reported(path, tmp_path):
    (tmp_path / "out").write_text("a file")
    pipeline = new(from_lines(path, structure="list")) | new(to_jsonl(str(tmp_path / "out")))
    with pytest.raises(OutputUnwritableError, match="out"):
        pipeline.run()
    assert (tmp_path / "out").read_text() == "a file"


def test_rows_of_a_csv_file_are_read(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("city,n\nOulu,2\nVaasa,3\nOulu,4\n")
    largest = p(reduce(lambda a, b: max(a, b, key=lambda row: row["n"])), by=lambda row: row["city"])
    pipeline = new(from_csv(str(file), structure="list")) | new(largest)
    assert (
        pipeline.run().outputs
        == pipeline.denote()
        == [{"city": "Vaasa", "n": "3"}, {"city": "Oulu", "n": "4"}]
    )


def test_flow_and_program_of_a_pipeline_are_those_of_any_flow(path):
    flow = (new(from_stream("lines", structure="bag")) | word_count).flow()
    elements = {"lines": list(enumerate(LINES))}
    assert isinstance(flow.program(), dgs.Program)
    assert Counter(dgs.run(flow, streams=elements).outputs) == Counter(flow.denote(elements))


def test_pipelines_that_cannot_be_run_yet_are_refused_but_have_a_meaning():
    over = window(2, 2, "count")
    low = new(w_p(reduce(min), by=first, over=over))
    pipeline = new(from_stream("prices")) | low | new(w_p(reduce(min), by=len, over=over))
    prices = {"prices": [(1, ("a", 3)), (2, ("a", 2)), (3, ("b", 5)), (4, ("b", 6))]}
    assert pipeline.denote(prices) == [("a", 2)]
    with pytest.raises(FlowError, match=r"F00 w_p.*cannot be run yet, though denote says what it means"):
        pipeline.run(streams=prices)


def test_windows_that_the_end_cuts_short_are_refused_beside_windows_by_time():
    """By the definition such a window has the time of its last value, and a run knows it at the end only."""
    cut = new(w_p(reduce(min), by=first, over=window(2, 1, "count", partial="emit")))
    pipeline = new(from_stream("prices")) | cut | new(w_p(reduce(min), by=first, over=window(8, 4, "time")))
    prices = {"prices": [(2, ("a", 3)), (4, ("b", 5))]}
    assert pipeline.denote(prices) == [("a", 3), ("a", 3), ("b", 5)]
    with pytest.raises(
        FlowError, match=r"F00 w_p.*keeps windows that the end cuts short, beside windows by time"
    ):
        pipeline.run(streams=prices)


def test_a_value_whose_key_changes_between_windows_stops_the_run():
    low = new(w_p(reduce(min), by=first, over=window(1, 1, "count")))
    pipeline = new(from_stream("prices")) | low | new(map(lambda pair: (pair[1], pair[0]))) | low
    with pytest.raises(dgs.DgsError, match="R02"):
        pipeline.run(streams={"prices": [(1, ("a", 3))]})


def test_missing_stream_is_refused():
    with pytest.raises(FlowError, match="source 'prices' has no stream"):
        new(from_stream("prices")).run()


def test_missing_file_is_refused(tmp_path):
    pipeline = new(from_lines(str(tmp_path / "none.txt"))) | word_count
    for read in (pipeline.run, pipeline.denote):
        with pytest.raises(dgs.errors.MissingInputError, match=r"no file at .*none.txt"):
            read()


@pytest.mark.parametrize("elements", [[("A", 1), 5], [(1, "A", 2)]])
def test_elements_without_time_are_refused(elements):
    for read in (
        new(from_stream("prices")).denote,
        lambda streams: new(from_stream("prices")).run(streams=streams),
    ):
        with pytest.raises(FlowError, match=r"source 'prices' has an element in row \d that is no pair"):
            read({"prices": elements})


def test_other_values_than_jobs_are_refused():
    with pytest.raises(dgs.errors.UsageError, match="not a Pipeline; call its run"):
        dgs.run(new(from_stream("prices")), streams={"prices": []})


def elements(generator, *fields, **args):
    """Return the stream of a generator of the stock market: rows, or the values of one field."""
    (columns,) = generator(**args)
    values = [
        dict(zip(fields, row, strict=True)) for row in zip(*(columns[name] for name in fields), strict=True)
    ]
    return list(zip(columns["ts"], values if len(fields) > 1 else columns[fields[0]], strict=True))


def market():
    """Return the streams of the stock market."""
    rows = ("ticker", "price")
    halves = {f"prices_{half}": elements(prices, *rows, market=half) for half in "ab"}
    return {**halves, "tweets": elements(tweets, *rows, above=100), "bids": elements(bids, "bid")}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout")
@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        (stats("emit"), "stock_stats_emit"),
        (stats("drop"), "stock_stats_drop"),
        (warnings, "stock_warnings"),
        (correlated, "stock_correlated"),
        (fx, "fx_stats"),
    ],
)
def test_stock_market_means_the_rows_of_its_case(pipeline, name):
    streams = market()
    assert digest(pipeline.denote({one: streams[one] for one in pipeline.flow().streams})) == expected(name)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout")
@pytest.mark.parametrize("how", [*STRUCTURES[:2], {"structure": "stream", "window": tumbling(1000)}])
def test_word_count_of_shakespeare_gives_the_rows_of_its_case(how):
    pipeline = new(from_lines(str(DATA / "tinyshakespeare" / "input.txt.gz"), **how)) | word_count
    found = pipeline.run().outputs
    if how["structure"] == "stream":
        assert (len(found), sum(n for _, n in found)) == (76_324, 202_651)
    else:
        assert digest(found) == expected(f"wordcount_{how['structure']}")
    assert Counter(found) == Counter(pipeline.denote())


def test_a_join_in_place_does_not_change_the_input_of_another_window():
    def joined(left, right):
        left.update(right)
        return left

    counts = new(map(Counter)) | new(w(reduce(joined), over=window(3, 1, "count")))
    pipeline = new(from_stream("words")) | counts
    words = ["ab", "bc", "cd", "ab", "da", "aa", "bb"]
    rows = list(enumerate(words))
    wanted = [Counter("".join(words[n : n + 3])) for n in range(5)]
    assert pipeline.denote({"words": rows}) == wanted
    assert pipeline.run(streams={"words": rows}).outputs == wanted
