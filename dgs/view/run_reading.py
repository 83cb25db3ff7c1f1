"""Reading a run from its directory, live or over: its plans, its figures as they come, and how it ended.

A run without figures, or with figures that this version cannot read, is shown by its results and its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgs.errors import DgsError
from dgs.job.document import read_plan_section
from dgs.job.run_directory import RunDirectory
from dgs.observe import OtherFiguresError, RunFigures, Tail, history
from dgs.view.moments import Happening, Moment, Placed, Seen, WorkerNow
from dgs.view.pictures.texts import clean, plural, seconds
from dgs.view.report_file import NAME, write_report
from dgs.view.shown_figures import Shown, most_moments

Plan = tuple[Placed, ...]


class RunView:
    """A run that is shown. `status` returns its status now, from `dgs.api`: running, done, failed, killed and so on."""

    def __init__(self, directory: Path, status: Callable[[], str]) -> None:
        self._directory = RunDirectory(directory)
        self._status = status
        self._shown = Shown()
        self._last: RunFigures | None = None
        self._is_over = False
        self._note = ""
        self._tail = Tail(directory)
        self._read()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and everything that it left is read."""
        return self._is_over

    def news(self) -> list[Moment]:
        """Return the moments since the last call, or since the beginning."""
        if self._is_over:
            return []
        # asked first, so that nothing is missed that the process wrote before its end
        status = self._status()
        with suppress(OtherFiguresError):
            found = [
                figures for figures in self._tail.read() if self._last is None or figures.t > self._last.t
            ]
            return [*(self._add(figures) for figures in found), *self._end(status)]
        return self._end(status)

    def seen(self) -> Seen:
        """Return everything to show so far."""
        about, results = self._directory.about(), self._directory.results()
        status = self._status()
        began = float(about.get("started", 0.0))
        facts = {
            "id": self._directory.path.name,
            "name": clean(about.get("name", self._directory.path.name)),
            "unit": "none" if self._last is None else self._last.unit,
        }
        seen = self._shown.seen(
            status=status,
            about=self._about(began),
            note=self._note,
            resume=_onward(status, self._directory),
            **facts,
        )
        return seen if seen.moments else _without_figures(seen, results, self._plans())

    def close(self) -> None:
        """Close the file of figures."""
        self._tail.close()

    def _read(self) -> None:
        self._shown.know_plans(self._plans())
        try:
            found = history(self._directory.path)
        except OtherFiguresError as error:
            self._note = str(error)
            found = []
        if found:
            for figures in _spread(found, most_moments(len(found[-1].workers) + len(found[-1].streams))):
                self._add(figures)
        self._end(self._status())

    def _add(self, figures: RunFigures) -> Moment:
        if self._last is None or figures.generation != self._last.generation:
            self._shown.know_plans(self._plans())
        self._last = figures
        return self._shown.add(figures)

    def _end(self, status: str) -> list[Moment]:
        if self._is_over or status == "running":
            return []
        self._is_over = True
        self._tail.close()
        if self._last is None:
            return []
        results = self._directory.results()
        return [self._shown.add(self._last, ended=status, why=problem_of(results))]

    def _plans(self) -> list[Plan]:
        """Return the plans that the run has had, as far as its directory knows them."""
        found = [plan_of(data) for data in self._directory.plans()]
        if not found:
            with suppress(DgsError, OSError, ValueError):
                found = [plan_of(read_plan_section(self._directory.plan_file))]
        return [plan for plan in found if plan]

    def _about(self, began: float) -> str:
        when = f"began {datetime.fromtimestamp(began, UTC):%d %b %Y %H:%M:%S} UTC" if began else ""
        return " · ".join(part for part in (f"run {self._directory.path.name}", when) if part)


def _spread(found: list[RunFigures], most: int) -> list[RunFigures]:
    """Return at most `most` figures, with the first and last of each generation."""
    step = -(-len(found) // most)
    last = len(found) - 1
    edges = {i for i in range(1, len(found)) if found[i].generation != found[i - 1].generation}
    return [one for i, one in enumerate(found) if i % step == 0 or i in (last, *edges) or i + 1 in edges]


def plan_of(data: Mapping[str, Any]) -> Plan:
    """Return the workers of the `plan:` section of a plan file, parents first.

    >>> found = plan_of({"id": "w0", "tags": {"rules": ["rule"]}, "children": [{"id": "w1", "tags": {"a": [{"kind": "view", "key": "EWR"}]}}]})
    >>> [(worker.name, worker.parent, worker.tags) for worker in found]
    [('w0', None, 'rule from rules'), ('w1', 0, 'view(EWR) from a')]
    """
    workers: list[Placed] = []
    rest: list[tuple[Any, int | None]] = [(data, None)]
    while rest:
        node, parent = rest.pop()
        if not isinstance(node, Mapping):
            continue
        tags = node.get("tags") or {}
        tags = {str(stream): _tags(one) for stream, one in tags.items()} if isinstance(tags, Mapping) else {}
        workers.append(
            Placed(
                str(node.get("id", f"w{len(workers)}")),
                parent,
                _summary(tags),
                "; ".join(f"{k}: {v}" for k, v in tags.items()),
            )
        )
        place = len(workers) - 1
        children = node.get("children") or []
        rest += [(child, place) for child in reversed(children if isinstance(children, list) else [])]
    return tuple(workers)


def _summary(tags: Mapping[str, str]) -> str:
    if not tags:
        return ""
    kinds = ", ".join(dict.fromkeys(tags.values()))
    return f"{kinds} from {next(iter(tags)) if len(tags) == 1 else plural(len(tags), 'stream')}"


def _tags(data: Any) -> str:
    """Return the tags of one stream in words."""
    items = data if isinstance(data, list) else [data]
    return ", ".join(_tag(item) for item in items)


def _tag(item: Any) -> str:
    if not isinstance(item, Mapping):
        return "everything" if item == "*" else str(item)
    kind = str(item.get("kind", "?"))
    if "key" in item:
        return f"{kind}({item['key']})"
    if "keys" in item:
        return f"{kind}({', '.join(map(str, item['keys']))})"
    if "classes" in item:
        return f"{kind}({len(item['classes'])} of {item.get('of', '?')} classes of keys)"
    return f"{kind}, but not {', '.join(map(str, item['except']))}" if "except" in item else kind


def problem_of(results: Mapping[str, Any]) -> str:
    """Return the message of the error with which a run ended, empty if there is none."""
    error = results.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message", ""))
    return str(error or "")


def _onward(status: str, directory: RunDirectory) -> str:
    ends = {"stopped", "failed", "killed", "interrupted"}
    return f"Go on with it: dgs resume {directory.path.name}" if status in ends else ""


def _without_figures(seen: Seen, results: Mapping[str, Any], plans: list[Plan]) -> Seen:
    """Return a run without figures as one moment, with the numbers of its results."""
    plan = plans[-1] if plans else (Placed("?", None),)
    events, outputs, took = (results.get(name) or 0 for name in ("events_in", "outputs", "seconds"))
    numbers = (
        f"Its results say: {events:,} events, {outputs:,} outputs in {seconds(took)}."
        if results
        else "It has left no results either."
    )
    status, sentence = seen.status, f"This run is {seen.status} and has no figures."
    if status == "running":
        status, sentence = "starting", "The run is starting."
        numbers = "Its figures come about a second after its work has begun."
    problem = problem_of(results)
    moment = Moment(
        at=float(took),
        status=status,
        sentence=sentence,
        more=f"{problem} {numbers}".strip(),
        plan=0,
        rate=float(results.get("throughput_eps") or 0.0),
        events=int(events),
        outputs=int(outputs),
        hosts=0,
        workers=tuple(WorkerNow("idle") for _ in plan),
        streams=(),
        restarts=int(results.get("restarts") or 0),
    )
    ended = (Happening(moment.at, "end", problem),) if problem else ()
    return Seen(
        seen.id,
        seen.name,
        seen.status,
        seen.about,
        seen.unit,
        (plan,),
        (moment,),
        ended,
        seen.note,
        seen.resume,
    )


@contextmanager
def reported(
    directory: RunDirectory, status: Callable[[], str], notify: Callable[[str], None]
) -> Iterator[None]:
    """Leave the report of a run in its directory when this context ends, also by an error. `notify` gets the reason if there is none."""
    try:
        yield
    finally:
        if directory.about():  # a run that has not begun has no report
            try:
                with closing(RunView(directory.path, status)) as view:
                    write_report(view.seen(), directory.path / NAME)
            except Exception as error:  # noqa: BLE001 - a drawing that fails must not change how a run ends
                notify(f"the report could not be written: {error}")
