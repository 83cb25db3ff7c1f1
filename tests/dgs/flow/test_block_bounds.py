"""Items of one key in one block that do not fit into `buffer_bytes` are refused, with the period that would fit."""

import os
import re
from pathlib import Path

import pytest

import dgs
from dgs.errors import UserCodeError
from dgs.flow import FlowError, every, flow, on
from tests.dgs.flow import flows

ROWS = {"a": [(ts, "x" * 90) for ts in range(200)]}
SMALL = {"kind": "local", "buffer_bytes": "5000B"}


def kept(a):
    return a.key_by(lambda _, text: text[0]).block(lambda key, items, at: [len(items)])


def paired(edge):
    keyed = edge.key_by(lambda _, text: text[0])
    return keyed.join(keyed, lambda key, a, b: 1)


LARGE = {
    "a block without a clock": flow()(kept),
    "a block": flow(clock=every(100))(kept),
    "a sort with units": flow(clock=every("1s"))(lambda a: a.sort(by=lambda _, text: text, ties="value")),
    "a block of markers": flow(clock=on("marks"))(lambda a, marks: kept(a)),
    "items to be paired": flow(clock=every(100))(lambda a: paired(a.each(lambda _, text, at: f"{text}{at}"))),
}


def refused(made):
    streams = {**ROWS, "marks": [(500, None)]} if "marks" in made.streams else ROWS
    with pytest.raises(FlowError) as caught:
        dgs.run(made, streams=streams, runtime=SMALL, settings={"on_error": "skip"})
    return str(caught.value)


def test_texts_are_those_of_the_golden_file():
    """`UPDATE_GOLDEN=1` rewrites tests/golden/flow_too_large.txt."""
    found = [f"# {name}\n{refused(made)}\n" for name, made in LARGE.items()]
    text = re.sub(r"test_block_bounds\.py:\d+", "flow.py:1", "\n".join(found))
    golden = Path(__file__).parents[2] / "golden" / "flow_too_large.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_period_that_an_error_names_fits():
    period = int(re.search(r"period of at most (\d+)", refused(LARGE["a block"]))[1])
    shorter = flow(clock=every(period))(kept)
    assert sum(dgs.run(shorter, streams=ROWS, runtime=SMALL).outputs) == 200


def test_what_fits_is_not_refused():
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
