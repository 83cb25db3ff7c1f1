"""Absurd values in the files of a run never end the view of it, its report, `dgs top` or a list of runs."""

import json
import random
from contextlib import closing, suppress

import pytest

from dgs.errors import DgsError
from dgs.observe import newest
from dgs.view.page import page
from dgs.view.run_reading import RunView
from dgs.workers.observing.top_tables import head_of, tables_of
from tests.dgs.view.drawn_runs import tree
from tests.dgs.view.left_runs import leave

NUMBERS = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "1e999", "-1", "-0.5", "1e18", str(10**400)]
VALUES = [
    *NUMBERS,
    "9" * 5000,
    "null",
    "true",
    '"x"',
    "[]",
    "{}",
    "[[]]",
    '{"a": 1}',
    '"\\ud800"',
    "[" * 3000 + "]" * 3000,
]
FILES = ("run.json", "results.json", "figures.ndjson", "plans.ndjson")
RESULTS = {
    "status": "done",
    "events_in": 9,
    "outputs": 3,
    "seconds": 1.5,
    "throughput_eps": 6.0,
    "restarts": 0,
    "verified": True,
}
MARK = "@"


def places(data, at=()):
    """Yield where a document has values, inside and outside of others."""
    yield at
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*at, key))


def put(data, at, value):
    if not at:
        return value
    items = dict(data) if isinstance(data, dict) else list(data)
    items[at[0]] = put(items[at[0]], at[1:], value)
    return items


def damaged(text, value, chance):
    """Return the text of a file with a value of one of its lines replaced, or cut there."""
    lines = text.splitlines()
    number = chance.randrange(len(lines))
    data = json.loads(lines[number])
    at = chance.choice(list(places(data)))
    lines[number] = json.dumps(put(data, at, MARK)).replace(f'"{MARK}"', value)
    whole = "\n".join([*lines, ""])
    return whole if chance.random() < 0.9 else whole[: chance.randrange(len(whole))]


@pytest.mark.parametrize("file", FILES)
def test_one_absurd_value_anywhere_ends_no_view(project, dgs, file):
    chance = random.Random(file)
    for number, value in enumerate(VALUES):
        directory = leave(project, tree(3), seconds=4, results=RESULTS, name=f"{number:08}")
        path = directory / file
        path.write_text(damaged(path.read_text(), value, chance), errors="surrogatepass")
        with closing(RunView(directory, lambda: "done")) as view:
            assert "<html" in page(view.seen()).html
        with suppress(DgsError):
            figures = newest(directory)
            assert [
                *head_of(figures, status="done"),
                *(row for table in tables_of(figures) for row in table.rows),
            ]
    assert dgs("runs ls").code == 0
    assert dgs("runs show").code == 0
    assert dgs("runs prune --keep 0").code == 0


@pytest.mark.parametrize("value", NUMBERS)
def test_a_beginning_that_is_no_time_is_left_out(project, dgs, value):
    directory = leave(project, tree(3), seconds=4)
    path = directory / "run.json"
    path.write_text(path.read_text().replace(json.dumps(json.loads(path.read_text())["started"]), value))
    done = dgs("runs ls")
    assert (done.code, "1970" in done.out) == (0, False)
