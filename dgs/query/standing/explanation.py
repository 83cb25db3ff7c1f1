"""The explanation of a query: its text as algebra, each rule that rewrote it, the state of each stream and why it is kept, and the answer over it.

>>> from dgs.query.relation import Source
>>> from dgs.query.sql import script
>>> from dgs.query.types import INT, TEXT, Schema
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> text = "select carrier, avg(delay) a from flights group by carrier"
>>> found = explained(script(text, {"flights": flights}, name="q.sql", params={}))
>>> found.as_data()["class"], found.as_data()["compactions"][0]["keys"]
('A', [{'column': 'carrier', 'clause': 'group by', 'place': 'q.sql:1:52'}])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from dgs.query.errors import QueryError
from dgs.query.relation import Script, Window, walk
from dgs.query.rewrite import Rewritten, Rules, rewritten
from dgs.query.rewrite.graph_text import text_of
from dgs.query.split import Split, split
from dgs.query.split.compaction import Compaction, deletes
from dgs.query.windowing.window_panes import windowed

CLASSES = {
    "A": "the groups: an answer costs a row for each group",
    "B": "the different keys that the joins ask for: an answer joins these, and not the rows",
    "C": "whole rows: an answer costs as much as asking all rows anew",
}
"""The state of each class in words, and the cost of an answer."""

PRICE = (
    "Each batch is reduced once (h) and merged; the price of an answer follows the rows of the state, not those of the batch. "
    "Where the state has about as many rows as the streams, asking anew is cheaper."
)


ROUNDED = (
    "sums of floats are rounded as rows come and go: after 1e16 + 0.1 - 1e16 the sum is 0. With `exact: true` they are those of the rows "
    "that are there, rounded once."
)


ALL_WINDOWS = (
    "the windows are columns like others here: each answer is that of all windows so far, and none of them is ever dropped. Rows of several "
    "windows meet, as under `limit`, or a group or column leaves out the window's end, or a stream is also read without a window."
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A query as written, after its rules, and split into a kept state and an answer.

    `kept`: for each compaction, by its name, the numbers of its rows and of the rows it was made of, if they were counted.
    """

    script: Script
    rewritten: Rewritten
    split: Split
    kept: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return the explanation as plain data, with graphs as text. `class` is that of the state."""
        return {
            "class": self.split.klass,
            "state": CLASSES[self.split.klass],
            "algebra": text_of(self.script),
            "steps": [step.to_json() for step in self.rewritten.steps],
            "compactions": [_compaction(one, self.kept.get(one.name)) for one in self.split.compactions],
            "answer": text_of(self.split.answer),
            "tables": list(self.split.tables),
            "advice": list(self._advice()),
        }

    def __str__(self) -> str:
        data = self.as_data()
        parts = [("algebra", data["algebra"])]
        parts += [(f"rule {step.number}", str(step)) for step in self.rewritten.steps]
        parts += [
            (f"h: what is kept of {' and '.join(one['streams'])}", _said(one)) for one in data["compactions"]
        ]
        parts.append(("merge", "rows of one key become one: " + _merges(self.split)))
        parts.append(("answer", data["answer"]))
        parts.append((f"class {data['class']}", f"the state is {data['state']}.\n{PRICE}"))
        parts += [("advice", one) for one in data["advice"]]
        return "\n\n".join(f"{title}\n{_indented(text)}" for title, text in parts)

    def _advice(self) -> Iterator[str]:
        """Yield advice on how to write the query better."""
        kept = [one for one in self.split.compactions if deletes(one.query)]
        sums = [
            name
            for one in kept
            for name, merge in one.parts
            if merge == "sum" and one.schema.type(name).kind == "float64"
        ]
        if sums:
            yield ROUNDED
        if self._keeps_all_windows():
            yield ALL_WINDOWS

    def _keeps_all_windows(self) -> bool:
        """Whether the query has windows and cannot be answered window by window."""
        has_windows = any(
            isinstance(one, Window) for _, output in self.script.outputs for one in walk(output)
        )
        with suppress(QueryError):  # windows that differ, which a run refuses
            return has_windows and windowed(self.script) is None
        return False


def explained(
    script: Script,
    rules: Iterable[Rules] = (),
    *,
    require: Literal["A", "B", "C"] | None = None,
    exact: bool = False,
) -> Explanation:
    """Return the explanation of a query. Raises QueryError: those of rules, Q302 for a product of streams, Q301 for a worse class."""
    found = rewritten(script, rules)
    return Explanation(script, found, split(found.script, require=require, exact=exact))


def _compaction(one: Compaction, kept: tuple[int, int] | None) -> dict[str, Any]:
    clauses = {forced.key: forced for forced in reversed(one.forced)}
    return {
        "name": one.name,
        "streams": list(one.streams),
        "class": one.klass,
        "keys": [
            {
                "column": key,
                "clause": clauses[key].clause if key in clauses else None,
                "place": str(clauses[key].span) if key in clauses and clauses[key].span else None,
            }
            for key in one.keys
        ],
        "parts": [{"column": name, "merge": merge} for name, merge in one.parts],
        "query": text_of(one.query),
        "kept": None if kept is None else {"rows": kept[0], "of": kept[1]},
    }


def _said(one: dict[str, Any]) -> str:
    lines = [f"{one['name']}, class {one['class']}"]
    lines += [
        f"key {key['column']}"
        + (f", for {key['clause']}" if key["clause"] else "")
        + (f" at {key['place']}" if key["place"] else "")
        for key in one["keys"]
    ]
    parts = ", ".join(f"{part['column']} ({part['merge']})" for part in one["parts"])
    kept = one["kept"]
    counted = [] if kept is None else [f"keeps {kept['rows']:,} rows of {kept['of']:,}"]
    return "\n".join([*lines, f"parts {parts}", *counted, one["query"]])


def _merges(found: Split) -> str:
    used = sorted({merge for one in found.compactions for _, merge in one.parts})
    words = {"sum": "sums add", "min": "the least stays", "max": "the greatest stays"}
    return ", ".join(words[merge] for merge in used) or "nothing is kept"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
