"""Flows: pipelines over streams, written as a function of edges.

>>> from dgs.flow.clock import every
>>> from dgs.monoids import COUNT
>>> @flow(clock=every(10))
... def words(lines: str):
...     return lines.flat_map(lambda _, line: line.split()).key_by(lambda _, word: word).aggregate(COUNT).each(
...         lambda word, n, at: [at, word, n])
>>> words.denote({"lines": [(1, "a b a"), (12, "b")]})
[[10, 'a', 2], [10, 'b', 1], [20, 'b', 1]]
>>> print(words.types())
flow words, clock every 10
lines   source     O((), str)
step 1  flat_map   O((), Any)
step 2  key_by     O(Any, Any)
step 3  aggregate  O(Any, Any)
step 4  each       O(Any, Any)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

from dgs.errors import InternalError
from dgs.errors.raised import RAISED, is_ours, summary, user_lines
from dgs.flow.building import Builder, Edge
from dgs.flow.clock import Clock
from dgs.flow.edge_types import gives_instead, takes
from dgs.flow.flow_checks import Checked, checked
from dgs.flow.flow_graph import End, Graph
from dgs.flow.mistakes import FlowError, Mistake, Place, checks_call, checks_calls, user_place
from dgs.flow.steps import Source

if TYPE_CHECKING:
    from dgs.flow.compiling import Compiled
    from dgs.flow.denotation import Inputs
    from dgs.model.program import Program

Build = Callable[..., Any]
"""A function of one edge for each stream, by name, which returns the edge of the outputs."""

MOST_CLASSES = 65_536

PAIR = 2
"""The number of parts of an element: its ts and its value."""


@checks_calls
class Flow:
    """A pipeline: its streams by name with the types of their values, and the function that builds it.

    `types()` says what each step takes and gives, `denote(inputs)` computes the meaning of the flow, `program()` is the DGS program that runs it.
    All of them raise FlowError with every mistake of the flow.
    """

    inlet = "parameter"
    """The word, in reports, for what a stream is bound to."""

    @takes("name", "streams", "arguments")
    def __init__(
        self,
        name: str,
        streams: Mapping[str, Any],
        build: Build,
        *,
        clock: Clock | None = None,
        end: End = "close",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.streams = dict(streams)
        self.clock = clock
        self.end = end
        self.build = build
        self.arguments = dict(arguments or {})

    def bind(self, **arguments: Any) -> Flow:
        """Return the flow with values for the arguments of its function that are not streams."""
        given = {**self.arguments, **arguments}
        return Flow(self.name, self.streams, self.build, clock=self.clock, end=self.end, arguments=given)

    @property
    def module(self) -> str:
        """The name of the module of its function."""
        return getattr(self.build, "__module__", "")

    def has_function_of(self, other: object) -> bool:
        """Return whether another object is a flow of the same function, perhaps with other arguments."""
        return isinstance(other, Flow) and other.build is self.build

    @cached_property
    def checked(self) -> Checked:
        """The graph with the types of its edges. Raises FlowError."""
        builder = Builder(self.name, self.clock, self.end)
        self._check_arguments()
        edges = {name: builder.source(name, value, self._place) for name, value in self.streams.items()}
        result = None
        cause: BaseException | None = None
        try:
            result = self.build(**edges, **self.arguments)
        except FlowError as error:
            builder.mistakes += [Mistake(**one) for one in error.facts["mistakes"]]
            cause = error
        except RAISED as error:
            if is_ours(error) or isinstance(error, InternalError):
                raise
            builder.mistakes.append(self._raised(error))
            cause = error
        found = checked(builder.finished(result), noticed=builder.mistakes, is_whole=cause is None)
        if found.mistakes:
            raise FlowError.of(self.name, found.mistakes) from cause
        return found

    @property
    def _place(self) -> Place | None:
        """The line at which the function of the flow begins."""
        code = getattr(self.build, "__code__", None)
        return None if code is None else Place(code.co_filename, code.co_firstlineno)

    def _raised(self, error: BaseException) -> Mistake:
        fix = "An edge has no items yet: say with steps what becomes of each, as in .map(...) or .merge(...)"
        place = next((str(Place(*line)) for line in user_lines(error)), "")
        said = summary(error)
        return Mistake(
            "F12",
            f"flow {self.name!r}",
            f"its function raises {said}",
            place,
            fix=fix if "'Edge'" in said else "Correct this line",
        )

    @property
    def graph(self) -> Graph:
        """The nodes of the flow. Raises FlowError."""
        return self.checked.graph

    def types(self) -> str:
        """Return the type of each edge, one line a step. Raises FlowError."""
        return "\n".join([self._headed(), *aligned(self._rows())])

    def explained(self, *, classes: int = 64) -> str:
        """Return the type of each edge, where each step runs when the flow is compiled, and its shape. Raises FlowError."""
        found = self.compiled(classes=classes)
        rows = [(*row, where) for row, where in zip(self._rows(), found.places, strict=True)]
        return "\n".join([self._headed(), *aligned(rows), f"shape: {found.shape}"])

    def _headed(self) -> str:
        return f"flow {self.name}, clock {self.clock}" if self.clock else f"flow {self.name}"

    def _rows(self) -> list[tuple[str, ...]]:
        types = self.checked.types
        return [
            (node.step.label, "source", str(types[node]))
            if isinstance(node.step, Source)
            else (f"step {node.number}", node.step.label, str(types[node]))
            for node in self.graph.nodes
        ]

    def denote(self, inputs: Inputs) -> list[Any]:
        """Return the outputs for given streams, by the definition of each step.

        A stream is a list of (ts, value) in order of ts, or a table with a column `ts`: see `elements`. Raises FlowError, and
        UserCodeError with the step, the function and the key.
        """
        from dgs.flow.denotation import Denotation
        from dgs.model.user_code import calling

        self.check_streams(inputs)
        elements = {name: self.elements(name, given) for name, given in inputs.items()}
        for name, found in elements.items():
            self._check_times(name, found)
        meaning = Denotation(self.graph, self.checked.types, elements)
        with calling("denote", program=self.name):
            return meaning.outputs()

    def check_streams(self, inputs: Mapping[str, Any]) -> None:
        """Check that there is exactly one stream for every parameter. Raises FlowError."""
        if not isinstance(inputs, Mapping):
            fix = "Give {" + ", ".join(f"{name!r}: [(ts, value), ...]" for name in self.streams) + "}"
            raise self._wrong("F12", "gets no streams by name", repr(inputs), fix)
        if missing := [name for name in self.streams if name not in inputs]:
            found = f"streams {', '.join(map(str, inputs))}" if inputs else "no streams"
            fix = f"Give streams={{{missing[0]!r}: [(ts, value), ...]}}"
            raise self._wrong("F12", f"{self.inlet} {missing[0]!r} has no stream", found, fix)
        if unknown := [name for name in inputs if name not in self.streams]:
            raise self._wrong(
                "F12", f"stream {unknown[0]!r} is no {self.inlet}", f"{self.inlet}s {', '.join(self.streams)}"
            )

    def readable(self, name: str, given: Any) -> Any:
        """Return a stream in the form for a run: tables as columns, else its elements. Raises FlowError for anything else."""
        from dgs.frames.frame_stream import Stream  # here, because it loads NumPy

        if isinstance(given, Stream):
            return given
        tables = self._tables(name, given)
        return self.elements(name, given) if tables is None else tables

    def elements(self, name: str, given: Any) -> list[tuple[int, Any]]:
        """Return the elements of a stream. Raises FlowError for anything that is not a pair of a ts and a value.

        A row of a table has its column `payload` as its value, or, if there is none, all columns as a dictionary.
        """
        from dgs.model import columns  # here, because it loads NumPy

        if (tables := self._tables(name, given)) is not None:
            pairs = [(table["ts"], table.get("payload", table)) for table in tables]
            return [pair for both in pairs for pair in zip(*map(columns.to_list, both), strict=True)]
        where, fix = f"{self.inlet} {name!r}", "Give [(ts, value), ...], or a table with a column ts"
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
            raise self._wrong("F12", f"{where} gets no list of elements", repr(given), fix)
        elements = list(given)
        for row, one in enumerate(elements):
            if not isinstance(one, (tuple, list)) or len(one) != PAIR:
                raise self._wrong(
                    "F12", f"{where} has an element in row {row} that is no pair", repr(one), fix
                )
        return elements

    def _tables(self, name: str, given: Any) -> list[dict[str, Any]] | None:
        """Return the columns of a table, or of each table in a list; None for anything else. Raises FlowError for a table without times."""
        from dgs.frames.frame_stream import Stream  # here, because it loads NumPy
        from dgs.frames.tables import is_table, of_table
        from dgs.model import columns

        if isinstance(given, Stream):
            return [given.elements]
        several = given if isinstance(given, (list, tuple)) else [given]
        if not several or not all(map(is_table, several)):
            return None
        tables = [of_table(one) for one in several]
        for table in tables:
            lengths = {column: columns.length(values) for column, values in table.items()}
            if "ts" not in table or len(set(lengths.values())) > 1:
                problem = (
                    "a table without a column 'ts'" if "ts" not in table else "columns of several lengths"
                )
                raise self._wrong("F12", f"{self.inlet} {name!r} gets {problem}", str(lengths))
        return tables

    def _check_times(self, name: str, elements: list[tuple[int, Any]]) -> None:
        before = None
        for row, (ts, _) in enumerate(elements):
            is_number = isinstance(ts, int) and type(ts) is not bool
            if not is_number or (before is not None and ts < before):
                problem = "that is before the row above" if is_number else "whose ts is no integer"
                found = f"ts {ts!r}" + ("" if before is None else f" behind {before!r}")
                where = f"{self.inlet} {name!r} has an element in row {row} {problem}"
                raise self._wrong("F12", where, found, "Give elements in order of ts, which is an integer")
            before = ts

    @takes("classes")
    def compiled(self, *, classes: int = 64) -> Compiled:
        """Return the compiled flow: a DGS program, and how elements become its events. Raises FlowError."""
        from dgs.flow.compiling import compiled

        if not 1 <= classes <= MOST_CLASSES:
            fix = "Give one of these, or leave it out"
            raise self._wrong("F01", f"has classes from 1 to {MOST_CLASSES:,}", str(classes), fix)
        return compiled(self.checked, classes)

    def program(self, *, classes: int = 64) -> Program:
        """Return the DGS program that the flow compiles to; `classes`: the number of hash classes of keys. Raises FlowError."""
        return self.compiled(classes=classes).program

    def __call__(self, *edges: Edge, **arguments: Any) -> Any:
        """Build the flow into another one, whose clock it takes. Two clocks are a mistake of the other flow. Raises FlowError."""
        if len(edges) != len(self.streams) or not all(isinstance(edge, Edge) for edge in edges):
            found = ", ".join(type(edge).__name__ for edge in edges) or "nothing"
            mistake = Mistake(
                "F12", f"flow {self.name!r}", "is used in another flow without its streams", str(user_place()),
                expected=f"edges for {', '.join(self.streams)}", found=found, fix="Give it an edge of the other flow for each of its streams",
            )  # fmt: skip
            raise FlowError.of(self.name, [mistake])
        (builder,) = {edge.builder for edge in edges}
        if self.clock is not None and self.clock != builder.clock:
            problem, fix = (
                "has another clock than the flow it is used in",
                "Give both one clock, or leave out that of the inner flow",
            )
            outer, where = str(builder.clock or "no clock"), f"flow {self.name!r}"
            builder.mistakes.append(
                Mistake("F06", where, problem, str(user_place()), outer, str(self.clock), fix)
            )
        return self.build(**dict(zip(self.streams, edges, strict=True)), **{**self.arguments, **arguments})

    def __repr__(self) -> str:
        return f"<flow {self.name} of {', '.join(self.streams)}>"

    def _check_arguments(self) -> None:
        try:
            inspect.signature(self.build).bind(**dict.fromkeys(self.streams), **self.arguments)
        except TypeError as error:
            fix = "Give each stream a parameter of its own, and each other parameter a value by bind(...) or `args:`"
            raise self._wrong("F12", f"its function cannot be called: {error}", "", fix) from error
        if what := gives_instead(self.build):
            fix = "Write it with `def` and `return`"
            raise self._wrong("F12", "its function does nothing when it is called", what, fix)

    def _wrong(self, code: str, problem: str, found: str, fix: str = "") -> FlowError:
        place = str(self._place or "")
        return FlowError.of(
            self.name, [Mistake(code, f"flow {self.name!r}", problem, place, found=found, fix=fix)]
        )


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of texts as lines with aligned columns.

    >>> aligned([("a", "b"), ("aaa", "c")])
    ['a    b', 'aaa  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{text:<{n}}" for text, n in zip(row, widths, strict=True)).rstrip() for row in rows]


@checks_call
def flow(*_given: object, clock: Clock | None = None, end: End = "close") -> Callable[[Build], Flow]:
    """Make a flow of a function whose positional parameters are streams; their annotations are the types of the values.

    Keyword-only parameters are arguments, which `bind` or plan.yaml gives. `end="drop"` leaves out the unfinished last block.
    """

    def made(function: Build) -> Flow:
        if not callable(function):
            raise _no_function(function)
        parameters = inspect.signature(function).parameters.values()
        try:
            hints = get_type_hints(function)
        except (NameError, TypeError):  # names that are known elsewhere only
            hints = {}
        arguments = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        streams = {one.name: hints.get(one.name, Any) for one in parameters if one.kind not in arguments}
        name = function.__name__ if function.__name__.isidentifier() else "flow"  # a lambda has no name
        if several := [one.name for one in parameters if one.kind is one.VAR_POSITIONAL]:
            mistake = Mistake(
                "F12", f"flow {name!r}", f"its parameter *{several[0]} is no stream", str(user_place()),
                expected="a parameter for each stream", fix=f"Name the streams, as in `def {name}(views, clicks):`",
            )  # fmt: skip
            raise FlowError.of(name, [mistake])
        return Flow(name, streams, function, clock=clock, end=end)

    if _given:
        raise _no_function(_given[0])
    return made


def _no_function(found: object) -> FlowError:
    mistake = Mistake(
        "F12", "flow()", "takes its options in parentheses, and then a function of streams", str(user_place()),
        found=repr(found), fix="Write @flow() or @flow(clock=...) above `def name(stream, ...):`",
    )  # fmt: skip
    return FlowError.of("flow", [mistake])
