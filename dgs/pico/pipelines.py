"""Pipelines as users write them: `new`, `to`, `pair`, `merge`, `|` and `+`; their types, meaning and runs.

>>> from dgs.pico.operators import from_stream, fold_reduce
>>> total = new(fold_reduce(lambda s, x: s + x, 0, lambda a, b: a + b, gives=int))
>>> print(total.types())
(Any)s -> (int)s, for s in bag, list, stream with a window at its source
>>> (new(from_stream("numbers", structure="list")) | total).denote({"numbers": [(1, 10), (2, 20)]})
[30]
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import MissingInputError, OutputUnwritableError
from dgs.flow.edge_types import shown_type, takes
from dgs.flow.mistakes import FlowError, checks_call, checks_calls, user_place
from dgs.named_files import check_named, write_named
from dgs.pico.inference import Checker
from dgs.pico.lowering import PicoFlow
from dgs.pico.operators import UNNAMED, Operator, Source, Unknown
from dgs.pico.semantics import Meaning
from dgs.pico.structures import structures
from dgs.pico.syntax import Iterate, Merge, New, Pair, Term, To, drawn, sources_of

if TYPE_CHECKING:
    from dgs.model.program import Program

_OUTPUTS, _BY = "outputs.jsonl", "pipeline.run()"

Streams = Mapping[str, Iterable[tuple[int, Any]]]
"""The elements of each `from_stream`, (ts, value), in order of ts."""


@checks_calls
class Pipeline:
    """A pipeline, with a name for reports. Making one raises nothing but for calls without their arguments; `check` reports all mistakes at once."""

    @takes("name")
    def __init__(self, term: Term, name: str = UNNAMED) -> None:
        self.term = term
        self.name = name

    def __repr__(self) -> str:
        """Return the pipeline in the form that mistakes show.

        >>> from dgs.pico import flat_map, from_stream, new
        >>> new(from_stream("lines")) | new(flat_map(str.split))
        new(from_stream('lines')) | new(flat_map(split))
        """
        return drawn(self.term, {})[0]

    def __or__(self, other: Pipeline) -> Pipeline:
        """Pass the output of this pipeline to another one."""
        return Pipeline(To(self.term, (_term(other),), place=user_place()))

    def __add__(self, other: Pipeline) -> Pipeline:
        """Put the outputs of two pipelines together: ordered collections by time, and at equal times by source."""
        return Pipeline(Merge(self.term, _term(other), place=user_place()))

    def __ror__(self, other: Any) -> Pipeline:
        """Take what no pipeline makes: `check` reports it unless it is an operator."""
        return Pipeline(To(_term(other), (self.term,), place=user_place()))

    def __radd__(self, other: Any) -> Pipeline:
        """Put beside it what is no pipeline, as `|` does."""
        return Pipeline(Merge(_term(other), self.term, place=user_place()))

    def named(self, name: str) -> Pipeline:
        """Return the pipeline under a name."""
        return Pipeline(self.term, name)

    def check(self) -> Checker:
        """Return the types of the pipeline. Raises FlowError with every mistake."""
        found = Checker(self.name, self.term).check()
        if found.mistakes:
            raise FlowError.of(self.name, found.mistakes)
        return found

    def types(self) -> str:
        """Return the types of the pipeline's input and output, and the structures that it fits. Raises FlowError."""
        found = self.check()
        takes, gives = (
            f"({shown_type(one)})s" if one is not None else "()" for one in (found.takes, found.gives)
        )
        return f"{takes} -> {gives}, for s in {', '.join(structures(self.term))}"

    def denote(self, streams: Streams | None = None) -> list[Any]:
        """Return the values that the pipeline gives or writes, by the equations of the paper. Raises FlowError, UserCodeError."""
        from dgs.model.user_code import calling  # imported here, because it loads NumPy

        self._check_top_level()
        inputs = self._inputs(streams)
        with calling("denote", program=self.name):
            found = Meaning(self.term, inputs)
        return [*(value for values in found.written.values() for value in values), *found.outputs]

    def flow(self) -> PicoFlow:
        """Return the flow of the pipeline, which `dgs.run`, `dgs.check` and plan.yaml take. Raises FlowError."""
        self._check_top_level()
        return PicoFlow(self.name, self.term)

    def program(self, *, classes: int = 64) -> Program:
        """Return the DGS program that runs the pipeline. Raises FlowError."""
        return self.flow().program(classes=classes)

    def run(
        self, *, streams: Streams | None = None, runtime: str | Mapping[str, Any] = "local", **options: Any
    ) -> Any:
        """Run the pipeline, and write its values to its sinks; return the `dgs.Run`, whose outputs are all values.

        `options`: those of `dgs.run`. Raises any DgsError.
        """
        import dgs

        flow = self.flow()
        paths = flow.outlets
        for path in filter(None, paths):
            _make_folder(Path(path))
        run = dgs.run(flow, streams=self._inputs(streams), runtime=runtime, **options)
        for number, path in enumerate(paths):
            if path:
                _write(
                    path,
                    run.outputs if len(paths) == 1 else [value for at, value in run.outputs if at == number],
                )
        return run

    def _check_top_level(self) -> None:
        found = Checker(self.name, self.term).check_top_level()
        if found.mistakes:
            raise FlowError.of(self.name, found.mistakes)

    def _inputs(self, streams: Streams | None) -> dict[str, list[tuple[int, Any]]]:
        """Return the elements of each source, in order of their names."""
        given = {} if streams is None else streams
        sources = {one.name: one for one in sources_of(self.term)}
        if isinstance(given, Mapping):
            files = {name: one for name, one in sources.items() if name not in given and one.path is not None}
            given = {**given, **{name: list(enumerate(_rows(one))) for name, one in files.items()}}
        flow = PicoFlow(self.name, self.term)
        flow.check_streams(given)
        return {name: flow.elements(name, given[name]) for name in sorted(sources)}


@checks_call
def new(operator: Operator) -> Pipeline:
    """Return the pipeline of one operator."""
    return Pipeline(
        New(operator if isinstance(operator, Operator) else Unknown(operator), place=user_place())
    )


@checks_call
def to(pipeline: Pipeline, *branches: Pipeline) -> Pipeline:
    """Pass the output of a pipeline to each of several, and put their outputs together."""
    return Pipeline(To(_term(pipeline), tuple(_term(one) for one in branches), place=user_place()))


@checks_call
def pair(left: Pipeline, right: Pipeline, operator: Operator) -> Pipeline:
    """Apply an operator of two collections to the outputs of two pipelines."""
    known = operator if isinstance(operator, Operator) else Unknown(operator)
    return Pipeline(Pair(_term(left), _term(right), known, place=user_place()))


@checks_call
def merge(left: Pipeline, right: Pipeline) -> Pipeline:
    """Put the outputs of two pipelines together: `left + right`."""
    return Pipeline(Merge(_term(left), _term(right), place=user_place()))


@checks_call
def iterate(pipeline: Pipeline) -> Pipeline:
    """Mark a loop, which the checker refuses: the paper has none."""
    return Pipeline(Iterate(_term(pipeline), place=user_place()))


def _term(given: Any) -> Term:
    return (
        given.term
        if isinstance(given, Pipeline)
        else New(given if isinstance(given, Operator) else Unknown(given), place=user_place())
    )


def _rows(source: Source) -> Iterator[Any]:
    """Yield the lines or rows of a source's file. Raises MissingInputError."""
    path = str(source.path)
    if not Path(path).is_file():
        raise MissingInputError(
            stream=source.name, path=Path(path).resolve(), advice=MissingInputError.FROM_HERE
        )
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.endswith(".gz")
        else Path(path).open(encoding="utf-8") as file
    ):
        yield from csv.DictReader(file) if source.form == "csv" else (line.rstrip("\n") for line in file)


def _make_folder(folder: Path) -> None:
    """Make the folder of a sink. Raises OutputUnwritableError, and ForeignFileError if it has outputs that no run before has written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputUnwritableError(path=folder, problem=error.strerror) from None
    check_named(folder / _OUTPUTS, _BY)


def _write(folder: str, values: Iterable[Any]) -> None:
    lines = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for value in values]
    write_named(Path(folder) / _OUTPUTS, "".join(lines), _BY)
