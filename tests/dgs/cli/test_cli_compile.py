"""`dgs compile`: loops of a job in the cache before it runs, and why something is not compiled."""

import json

import pytest


@pytest.fixture
def cache(monkeypatch, tmp_path_factory):
    pytest.importorskip("numba", reason="numba is not installed: pip install 'dgs[compiled]'")
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_loops_are_in_the_cache_before_a_run_that_needs_them(project, dgs, cache):
    done = dgs("compile plan.yaml --optimizer sequential --json")
    assert (done.code, done.err) == (0, "")
    assert [(one["worker"], one["why_not"]) for one in json.loads(done.out)["workers"]] == [("w0", None)]
    made = sorted(path.name for path in cache.rglob("*.ready"))
    assert made
    assert dgs("run plan.yaml --runtime local --optimizer sequential --compile require --verify").code == 0
    assert sorted(path.name for path in cache.rglob("*.ready")) == made


def test_what_is_not_accepted_is_said_for_each_worker(project, dgs, cache):
    text = (project / "program.py").read_text()
    assert "state + " in text
    (project / "program.py").write_text(text.replace("state + ", "sum([state]) + "))
    done = dgs("compile plan.yaml")
    assert done.code == 0
    assert "interpreted: line" in done.out
    assert "`[state]`" in done.out


def test_compile_says_what_to_install(project, dgs, monkeypatch):
    monkeypatch.setattr("dgs.compiled.loop_files.is_available", lambda: False)
    done = dgs("compile plan.yaml")
    assert done.code == 4
    assert "numba" in done.err
