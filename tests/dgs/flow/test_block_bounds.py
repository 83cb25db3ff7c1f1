"""Items of one key in one block that do not fit into `buffer_bytes` are refused, with the period that would fit."""

import os
import re
from pathlib import Path

import pytest

import dgs
from dgs.errors import UserCodeError
from dgs.flow import FlowError, every, flow, on
from dgs.monoids import COUNT
from tests.dgs.flow import flows

ROWS = {"a": [(ts, "x" * 90) for ts in range(200)]}
SMALL = {"kind": "local", "buffer_bytes": "5000B"}


def kept(a):
    return a.key_by(lambda _, text: text[0]).block(lambda key, items, at: [len(items)])


def paired(edge):
    keyed = edge.key_by(lambda _, text: text[0])
    return keyed.join(keyed, lambda key, a, b: 1)


def text_of(_, text):
    return text


MANY = {"a": [(ts, f"{ts // 2:03}" + "x" * 87) for ts in range(200)]}
"""Two rows of each key."""

LARGE = {
    "a block without a clock": flow()(kept),
    "a block": flow(clock=every(100))(kept),
    "a sort with units": flow(clock=every("1s"))(lambda a: a.sort(by=lambda _, text: text, ties="value")),
    "a block of markers": flow(clock=on("marks"))(lambda a, marks: kept(a)),
    "items to be paired": flow(clock=every(100))(lambda a: paired(a.each(lambda _, text, at: f"{text}{at}"))),
}


LARGE_TOGETHER = {
    "a block of many keys": flow(clock=every(100))(
        lambda a: a.key_by(text_of).block(lambda k, items, at: [len(items)])
    ),
    "many keys without an order": flow(clock=every(100))(
        lambda a: a.pairs(lambda _, text: (text, text)).sort(by=text_of)
    ),
    "many keys to be paired": flow(clock=every(100))(lambda a: a.key_by(text_of).join(a.key_by(text_of))),
    "many keys without a clock": flow()(lambda a: a.pairs(lambda _, text: (text, text)).sort(by=text_of)),
}


def refused(made, rows=ROWS):
    streams = {**rows, "marks": [(500, None)]} if "marks" in made.streams else rows
    with pytest.raises(FlowError) as caught:
        dgs.run(made, streams=streams, runtime=SMALL, settings={"on_error": "skip"})
    return str(caught.value)


def test_texts_are_those_of_the_golden_file():
    """`UPDATE_GOLDEN=1` rewrites tests/golden/flow_too_large.txt."""
    found = [f"# {name}\n{refused(made)}\n" for name, made in LARGE.items()]
    found += [f"# {name}\n{refused(made, MANY)}\n" for name, made in LARGE_TOGETHER.items()]
    text = re.sub(r"test_block_bounds\.py:\d+", "flow.py:1", "\n".join(found))
    golden = Path(__file__).parents[2] / "golden" / "flow_too_large.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_period_that_an_error_names_fits():
    period = int(re.search(r"period of at most (\d+)", refused(LARGE["a block"]))[1])
    shorter = flow(clock=every(period))(kept)
    assert sum(dgs.run(shorter, streams=ROWS, runtime=SMALL).outputs) == 200


@pytest.mark.parametrize("name", list(LARGE_TOGETHER)[:3])
def test_the_period_that_fits_all_keys_is_named(name):
    period = int(re.search(r"period of at most (\d+)", refused(LARGE_TOGETHER[name], MANY))[1])
    shorter = flow(clock=every(period))(LARGE_TOGETHER[name].build)
    assert dgs.run(shorter, streams=MANY, runtime=SMALL).outputs
    much_shorter = flow(clock=every(period * 3))(LARGE_TOGETHER[name].build)
    refused(much_shorter, MANY)


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
@pytest.mark.parametrize("name", LARGE_TOGETHER)
def test_many_keys_are_refused_in_batches_of_any_size(name, batch_rows):
    with pytest.raises(FlowError, match=r"R0[34] .*\n.* keys, of about [\d,]+ bytes, most with key"):
        dgs.run(LARGE_TOGETHER[name], streams=MANY, runtime={**SMALL, "batch_rows": batch_rows})


def test_many_keys_after_the_end_of_a_block_are_refused():
    def build(a):
        counts = a.key_by(text_of).aggregate(COUNT)
        return counts.pairs(lambda text, n: (text, text)).block(lambda k, items, at: [len(items)])

    rows = {"a": [(ts // 20, f"{ts:05}" + "x" * 85) for ts in range(2000)]}
    with pytest.raises(
        FlowError, match=r"R03 step 4 'block': .*\n.*2,000 items of 2,000 keys, .* of block 0"
    ):
        dgs.run(
            flow(clock=every(100))(build), streams=rows, runtime={"kind": "local", "buffer_bytes": "100KiB"}
        )


def test_blocks_that_fit_are_not_refused():
    run = dgs.run(LARGE["a block"], streams=ROWS, runtime={"kind": "local", "buffer_bytes": "1MiB"})
    assert run.outputs == [100, 100]


def test_parts_that_fit_and_do_not_fit_together_are_refused():
    made = flow(clock=every(100))(lambda a: kept(a.pairs(lambda _, text: (text, text)))).compiled()
    program = made.program
    program.hold_at_most(5000)
    halves = [
        program.update_batch(program.identity(), batch, lambda *_: None)
        for ((batch,),) in (
            flows.batches(made, {"a": rows}, [])[1:] for rows in (ROWS["a"][:40], ROWS["a"][40:80])
        )
    ]
    with pytest.raises(FlowError, match=r"R03 step 3 'block': .*\n.* of block 0"):
        program.join(*halves)


def test_values_are_estimated_alike_in_order_and_without_one():
    for edge in (lambda a: a.key_by(lambda _, text: text), lambda a: a.pairs(lambda _, text: (text, text))):
        made = flow()(lambda a, *, edge=edge: edge(a).block(lambda key, items, at: [len(items)])).compiled()
        made.program.hold_at_most(5000)
        with pytest.raises(UserCodeError, match="R03"):
            flows.run(made, ROWS, [])
