"""The observer of a run over its generations."""

from types import SimpleNamespace

from dgs.model.impl_tags import ImplTagSet
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.observing.figures import CheckpointFigures, HostFigures, StreamFigures, WorkerFigures
from dgs.workers.recovery.checkpoint import ResumePoint
from dgs.workers.runtime.job import Caller
from dgs.workers.runtime.observed import RunObserver, gathered


def test_a_generation_begins_without_the_figures_of_the_hosts_before_it():
    job = SimpleNamespace(observe=None, figures_dir=None, name="sums", unit="none")
    observer = RunObserver(job, Caller(), SimpleNamespace(figures=CheckpointFigures()))
    for number in (1, 2):
        observer.begin(
            SimpleNamespace(
                point=ResumePoint(generation=number), plan=Plan(PlanNode("w0", ImplTagSet())), hosts=1
            )
        )
        figures = observer.figures
        assert (figures.phase, figures.generation) == ("starting", number)
        assert figures == gathered((), figures)
        host = HostFigures(workers={"w0": WorkerFigures(0, 5)}, streams={"s": StreamFigures(5, 5)})
        observer.generation([host], None, seconds=1.0, started=0.0)
        assert observer.figures.workers["w0"].events == 5
        observer.lost("host 0 was lost")
