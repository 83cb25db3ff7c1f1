"""Structures and windows: which collections an operator fits (PiCo, Figures 2 and 3), and what is wrong if it fits none.

Operators on whole collections need a bounded collection (a bag or a list), or a stream whose source has a window (P1). Windows need an
ordered collection: a list or a stream.

>>> from dgs.pico.operators import from_stream, reduce, w, window
>>> structures(New(w(reduce(min), over=window(10, 5))))
['list', 'stream', 'stream with a window at its source']
>>> of_window(window(5, 10)).found
'a slide of 10'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dgs.flow.clock import shown, ticks_of
from dgs.flow.edge_types import misfits
from dgs.flow.panes import CountWindow, TimeWindow, Window
from dgs.pico.operators import Combine, Source
from dgs.pico.syntax import New, Term, combines_of, sources_of

WINDOWED = "stream with a window at its source"


class Wrong(NamedTuple):
    """A mistake of an operator. `carets`: the texts under several operators that do not fit together."""

    code: str
    problem: str
    expected: str = ""
    found: str = ""
    fix: str = ""
    carets: Mapping[Term, str] | None = None


def structures(root: Term) -> list[str]:
    """Return the structures that a pipeline without mistakes fits. A stream whose source has a window counts separately."""
    combines = [operator for _, operator in combines_of(root)]
    found = ["bag", "list", "stream", WINDOWED]
    if any(one.over is not None or not one.commutative for one in combines):
        found.remove("bag")
    if any(one.over is None for one in combines):
        found.remove("stream")
    kinds = {shown_structure(one) for one in sources_of(root)}
    return [one for one in found if not kinds or one in kinds]


def shown_structure(source: Source) -> str:
    """Return the structure of a source, as text."""
    return WINDOWED if source.window is not None and source.structure == "stream" else source.structure


def of_source(source: Source) -> Iterator[Wrong]:
    """Yield what is wrong with the structure and the window of a source."""
    over = source.window
    if source.structure not in ("bag", "list", "stream"):
        expected = '"bag", "list" or "stream"'
        yield Wrong("P02", "has no such structure", expected, repr(source.structure), "Give one of them")
    if wrong := of_window(over):
        yield wrong
    if over is not None and source.structure != "stream":
        yield Wrong(
            "P05", "has the window of a stream", "a stream", source.structure, 'Say structure="stream"'
        )
    elif isinstance(over, CountWindow) or (isinstance(over, TimeWindow) and over.size != over.slide):
        problem, expected = ("needs a window by time whose size is its slide", 'tumbling(size, "time")')
        yield Wrong("W01", problem, expected, _shown(over), "Give such a window")


def of_window(over: Any) -> Wrong | None:
    """Return what is wrong with a window, None if nothing is or there is none."""
    if over is None:
        return None
    if not isinstance(over, (CountWindow, TimeWindow)):
        expected = 'window(size, slide) or tumbling(size), by "count" or by "time"'
        return Wrong("W01", "has no window", expected, repr(over), "Give one of them")
    size, slide = _length(over, over.size), _length(over, over.slide)
    if size is None or slide is None or size < 1 or slide < 1:
        expected = "whole numbers of at least 1"
        expected += ', or texts such as "10s"' if isinstance(over, TimeWindow) else ""
        found = f"size {over.size!r}, slide {over.slide!r}"
        return Wrong("W01", "has a size or slide that is no length", expected, found, "Give such lengths")
    for name, kind in misfits(over):
        return Wrong("W01", f"has no such {name}=", kind, repr(getattr(over, name)), "Give one of them")
    if slide > size and not over.allow_gaps:
        expected, found = (
            f"a slide of at most {shown(size, over.size)}",
            f"a slide of {shown(slide, over.slide)}",
        )
        fix = "Give such a slide, or allow_gaps=True"
        return Wrong("W02", "leaves out elements between its windows", expected, found, fix)
    return None


def of_combine(root: Term, term: Term, operator: Combine, at: New) -> Wrong | None:
    """Return what is wrong with an operator on the structure of its source, the term `at`; None if it fits."""
    source = at.operator
    if not isinstance(source, Source):
        return None
    if source.structure == "bag" and operator.over is not None:
        fix = 'Leave out the window, or say structure="list" at the source'
        return Wrong("P05", "has a window, and a bag has no order", "list or stream", "bag", fix)
    if source.structure == "bag" and not operator.commutative:
        carets = {at: "gives a bag", term: "needs list or stream: the order of the values counts"}
        fix = 'Say structure="list" at the source, or give a commutative operator'
        return Wrong("P03", "fits no structure", fix=fix, carets=carets)
    if source.structure == "stream" and operator.over is None and source.window is None:
        return _of_unbounded(root, term, operator)
    if isinstance(source.window, TimeWindow) and operator.over is not None:
        return _of_windows_of_windows(operator.over, source.window)
    return None


def _of_unbounded(root: Term, term: Term, operator: Combine) -> Wrong:
    """Return the mistake of an operator on a whole stream. If the pipeline has windows, which bags do not allow, no structure fits."""
    mended = f"w({operator.label}, over=tumbling(10))"
    if operator.by is not None:
        inner, by = operator.label[len("p(") : -1], getattr(operator.by, "__name__", "...")
        mended = f"w_p({inner}, by={by}, over=tumbling(10))"
    windowed = [one for one, other in combines_of(root) if other.over is not None]
    if windowed:
        carets = {
            windowed[0]: "needs list or stream: windows need order",
            term: "needs bag or list: a combine is bounded",
        }
        fix = f"For a stream give {operator.label} a window: {mended}"
        return Wrong("P03", "fits no structure", fix=fix, carets=carets)
    problem = "works on whole collections, and a stream has no end"
    fix = f"Write {mended}, or give the source a window"
    return Wrong("P04", problem, "bag, list, or a stream with a window", "stream", fix)


def _of_windows_of_windows(over: Window, outer: TimeWindow) -> Wrong | None:
    """Return the mistake of windows that do not consist of windows of the source, None if they do."""
    unit = ticks_of(outer.size) or 1
    if isinstance(over, TimeWindow) and not any(
        (ticks_of(part) or 0) % unit for part in (over.size, over.slide)
    ):
        return None
    expected = f"time, in multiples of {outer.size}"
    fix = "Give such a window, or leave out that of the source"
    return Wrong("W03", "has windows that are not made of those of the source", expected, _shown(over), fix)


def _length(over: Window, part: Any) -> int | None:
    """Return a length of a window as a number, None if it is not a length."""
    is_whole = isinstance(part, int) and not isinstance(part, bool)
    return ticks_of(part) if isinstance(over, TimeWindow) else part if is_whole else None


def _shown(over: Window) -> str:
    unit = "time" if isinstance(over, TimeWindow) else "count"
    return f'window({over.size!r}, {over.slide!r}, "{unit}")'
