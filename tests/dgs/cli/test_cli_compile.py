"""`dgs compile`: loops of a job in the cache before it runs, and why something is not compiled."""

import json

import pytest


@pytest.fixture
def cache(monkeypatch, tmp_path_factory):
    pytest.importorskip("llvmlite", reason="llvmlite is not installed: pip install 'dgs[compiled]'")
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_loops_are_in_the_cache_before_a_run_that_needs_them(project, dgs, cache):
    done = dgs("compile plan.yaml --optimizer sequential --json")
    assert (done.code, done.err) == (0, "")
    assert [(one["worker"], one["why_not"]) for one in json.loads(done.out)["workers"]] == [("w0", None)]
    made = sorted(path.name for path in cache.rglob("*.o"))
    assert made
    assert dgs("run plan.yaml --runtime local --optimizer sequential --compile require --verify").code == 0
    assert sorted(path.name for path in cache.rglob("*.o")) == made


def test_refusals_are_reported_for_each_worker(project, dgs, cache):
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
    assert "llvmlite" in done.err


def test_a_run_tells_what_machine_code_folded(project, dgs, cache, run_dirs):
    for name in ("left", "right"):
        rows = "".join(f"{ts},{ts}\n" for ts in range(300))
        (project / f"{name}.csv").write_text(f"ts,amount\n{rows}{300},{2**63 - 1}\n301,9\n")
    assert dgs("run plan.yaml --optimizer sequential --compile require").code == 0
    worker = json.loads((run_dirs()[-1] / "results.json").read_text())["per_worker"]["w0"]
    assert worker["compiled_events"] + worker["interpreted_events"] == worker["events"] == 607
    assert worker["deviations"] == 1
    assert worker["loops_compiled"] >= 1
    assert worker["loops_cached"] == 0
    assert worker["compile_seconds"] > 0
    said = dgs("explain plan.yaml --set runtime.compile=require").out
    assert f"w0: {worker['compiled_events']} events by machine code" in said


def test_doctor_counts_the_loops_in_the_cache(project, dgs, cache):
    assert "0 in " in dgs("doctor --no-ray").out
    dgs("compile plan.yaml --optimizer sequential")
    checks = json.loads(dgs("doctor --no-ray --json").out)["checks"]
    (loops,) = (check for check in checks if check["name"] == "compiled loops")
    assert int(loops["found"].partition(" ")[0]) == len(list(cache.rglob("*.o")))
