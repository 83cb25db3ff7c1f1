"""`dgs runs`: which runs are listed, which are removed, and which never are."""

import json
import re
import time

import pytest

from dgs.api.known_runs import held
from dgs.job.run_directory import RunDirectory
from dgs.workers.observing.figure_lines import FiguresFile
from dgs.workers.observing.figures import RunFigures

DAY = 86_400


@pytest.fixture
def made(project):
    """Make the directory of a run, as a run leaves it. `age`: days since it began."""

    def made(name, status="done", *, age=0.0, plan="plan.yaml", results=True, **found):
        directory = RunDirectory.create(project / ".dgs" / "runs" / name)
        started = time.time() - age * DAY
        directory.note(name="sums", plan_file=f"../../../{plan}", started=started, status=status)
        if results:
            directory.write_results({"status": status, "events_in": 9, "outputs": 3, "seconds": 1.5, **found})
        (directory.path / "outputs").mkdir()
        (directory.path / "outputs" / "part-0.jsonl").write_text("1\n" * 500)
        return directory

    return made


def listed(done):
    return {one["id"]: one for one in json.loads(done.out)["runs"]}


def test_runs_are_listed_the_newest_first_with_what_they_did(made, dgs):
    made("first", age=2, verified=True, restarts=1)
    made("second", "failed", age=1)
    done = dgs("runs ls")
    rows = [re.split(r"\s{2,}", line) for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["run", "second", "first"]
    assert rows[2][1:3] == ["plan.yaml", "done"]
    assert rows[2][-5:] == ["1.5", "9", "3", "1", "yes"]


def test_a_run_whose_process_is_gone_is_killed_and_shows_its_last_figures(made, dgs):
    directory = made("gone", "running", results=False)
    FiguresFile(directory.path, warn=pytest.fail).add(RunFigures(t=1.0, events=70, outputs=7, seconds=4.0))
    (one,) = listed(dgs("runs ls --json")).values()
    assert (one["status"], one["events"], one["outputs"], one["seconds"]) == ("killed", 70, 7, 4.0)


def test_a_run_that_a_process_holds_is_running(made, dgs):
    directory = made("alive", "running", results=False)
    with held(directory.path):
        assert listed(dgs("runs ls --json"))["alive"]["status"] == "running"


def test_runs_are_chosen_by_status_and_age(made, dgs):
    made("old", age=9)
    made("bad", "failed", age=1)
    made("new")
    assert list(listed(dgs("runs ls --json --status failed"))) == ["bad"]
    assert list(listed(dgs("runs ls --json --since 2d"))) == ["new", "bad"]


def test_show_says_what_a_run_did_and_names_the_nearest_of_one_that_does_not_exist(made, dgs):
    made("20261123-034119-b386", "failed", error={"message": "a host\x1b[2J died"})
    assert "a host�[2J died" in dgs("runs show 20261123-034119-b386").out
    missing = dgs("runs show 20261123-034119-b383")
    assert (missing.code, missing.out) == (2, "")
    assert "did you mean '20261123-034119-b386'?" in missing.err


def test_prune_dry_run_lists_and_removes_nothing(made, dgs, run_dirs):
    for number in range(4):
        made(f"r{number}", age=10 - number)
    done = dgs("runs prune --keep 2")
    assert [line.split(",")[0] for line in done.out.splitlines()] == ["would remove r1", "would remove r0"]
    assert "nothing is removed without --yes" in done.err
    assert len(run_dirs()) == 4


def test_prune_removes_by_count_and_age(made, dgs, run_dirs):
    for number in range(4):
        made(f"r{number}", age=10 - number)
    made("other", age=20, plan="b.yaml")
    assert dgs("runs prune --older-than 8.5d --yes").code == 0
    assert [path.name for path in run_dirs()] == ["other", "r2", "r3"]
    dgs("runs prune --keep 1 --yes")
    assert [path.name for path in run_dirs()] == ["other", "r3"]


def test_prune_without_a_limit_is_refused(made, dgs, run_dirs):
    made("one")
    assert dgs("runs prune --yes").code == 2
    assert len(run_dirs()) == 1


def test_prune_never_removes_live_or_newest_runs_and_other_files(made, dgs, run_dirs):
    alive = made("alive", "running", age=4, results=False)
    (made("strange", age=3).path / "thesis.txt").write_text("mine")
    made("plain", age=2)
    made("newest")
    with held(alive.path):
        done = dgs("runs prune --keep 0 --yes")
    assert [path.name for path in run_dirs()] == ["alive", "newest", "strange"]
    assert "keeps strange: it holds what no run made: thesis.txt" in done.out
    assert "keeps newest: it is the newest of its plan file" in done.out
    assert "keeps alive: it is running" in done.out


@pytest.mark.parametrize("place", ["outputs/thesis.txt", "outputs/figures/one.png", "checkpoints/notes.md"])
def test_prune_never_removes_files_of_others_among_outputs_and_checkpoints(made, dgs, run_dirs, place):
    path = made("old", age=2).path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    made("newest")
    done = dgs("runs prune --keep 0 --yes")
    assert f"keeps old: it holds what no run made: {'/'.join(place.split('/')[:2])}" in done.out
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "content",
    ['{"hello": 1}', '{"started": "yesterday", "name": 5}', '{"name": "sums", "status": []}', "[]", "{"],
)
def test_a_file_of_others_with_the_name_of_ours_harms_no_command_and_is_never_removed(
    made, dgs, project, content
):
    made("newest")
    place = project / ".dgs" / "runs" / "theirs"
    place.mkdir()
    (place / "run.json").write_text(content)
    (project / ".dgs" / "runs" / "link").symlink_to(made("linked", age=3).path)
    assert dgs("runs ls").code == 0
    assert dgs("runs show newest").code == 0
    done = dgs("runs prune --older-than 1d --yes")
    assert done.code == 0
    assert "keeps link: it is a link" in done.out
    assert (place / "run.json").read_text() == content


def test_prune_keeps_a_run_whose_reader_has_not_taken_all_outputs(made, dgs, run_dirs):
    (made("done", age=2).path / "unprinted.jsonl").write_text("1\n")
    (made("empty", age=2).path / "checkpoints").mkdir()
    made("newest")
    assert "keeps done: it could be gone on with" in dgs("runs prune --keep 0 --yes").out


def test_prune_keeps_a_run_that_can_be_resumed(made, dgs, run_dirs, monkeypatch):
    made("unfinished", "failed", age=2)
    made("newest")
    monkeypatch.setattr("dgs.api.known_runs.is_unfinished", lambda _checkpoints: True)
    assert "keeps unfinished: it could be gone on with" in dgs("runs prune --keep 0 --yes").out
    assert len(run_dirs()) == 2
    dgs("runs prune --keep 0 --yes --unfinished")
    assert [path.name for path in run_dirs()] == ["newest"]


def test_a_place_without_runs(project, dgs):
    assert dgs("runs ls").err == "dgs: no runs\n"
    assert json.loads(dgs("runs ls --json").out) == {"runs": []}
