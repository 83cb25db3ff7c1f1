"""Metrics: the answer to a scrape over HTTP, taken ports, bounded series, and queries of Prometheus itself."""

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dgs.job.schema import MetricsConfig
from dgs.workers.observing.figures import (
    CheckpointFigures,
    HostSummary,
    PairFigures,
    RunFigures,
    SinkFigures,
    StreamFigures,
    Wait,
    WorkerFigures,
)
from dgs.workers.observing.metrics import MOST_WORKERS, MetricsPortError, serving

pytest.importorskip("prometheus_client")

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations"
NOW = 1_700_000_100.0
HOSTILE = 'rules"} 1\n# <script>\\'
W0 = WorkerFigures(0, 40, 2, 1, 3.0, 0.5, 0.25, 9.0, Wait("stream", HOSTILE, 40, NOW - 90.0), 5, 60)

FULL = RunFigures(
    t=NOW,
    name="fraud",
    unit="s",
    phase="running",
    events=70,
    outputs=7,
    restarts=1,
    hosts={0: HostSummary(1, NOW, 1 << 20, 5)},
    workers={
        "w0": replace(W0, is_compiled=True, compiled_events=900, interpreted_events=8, deviations=2),
        "w1": WorkerFigures(0, 30),
    },
    streams={
        HOSTILE: StreamFigures(rows=9, events=8, frontier=1_700_000_000, heard=NOW - 80.0, lag_seconds=100.0),
        "payments": StreamFigures(rows=62, events=62, frontier=1_700_000_099, heard=NOW, dropped=3),
    },
    sinks={"jsonl": SinkFigures(7, 70, 0.5, 3)},
    pairs={"0>1": PairFigures(2, 200)},
    checkpoints=CheckpointFigures(committed=3, failed=1, state_bytes=99, last_seconds=0.5, at=NOW - 10.0),
)


def serving_here(port=0, *, said=None, clock=lambda: NOW):
    return serving(
        MetricsConfig(port=port), "run-1", clock=clock, say=(said if said is not None else []).append
    )


def scraped(said):
    url = re.search(r"http://\S+", said[-1])[0]
    with closing(urllib.request.urlopen(url)) as answer:
        return answer.read().decode()


def values(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def test_a_scrape_has_the_newest_figures():
    said = []
    with serving_here(said=said) as take:
        take(RunFigures(t=1.0))
        take(FULL)
        found = values(scraped(said))
    of_run = '{plan="fraud",run="run-1"}'
    of_w0 = '{plan="fraud",run="run-1",worker="w0"}'
    assert float(found[f"dgs_events_total{of_run}"]) == 70
    assert float(found[f"dgs_outputs_total{of_run}"]) == 7
    assert float(found[f"dgs_checkpoint_age_seconds{of_run}"]) == 10
    assert float(found[f"dgs_worker_waiting{of_w0}"]) == 90
    assert float(found[f"dgs_deviations_total{of_w0}"]) == 2
    folded = [float(value) for name, value in found.items() if name.startswith("dgs_folded_events")]
    assert folded == [900, 8]
    assert float(found[f"dgs_synchronisation_seconds_total{of_w0}"]) == 0.75
    assert float(found['dgs_dropped_total{plan="fraud",run="run-1",stream="payments"}']) == 3
    assert float(found['dgs_phase{phase="running",plan="fraud",run="run-1"}']) == 1


def test_names_from_users_stay_labels():
    said = []
    with serving_here(said=said) as take:
        take(FULL)
        text = scraped(said)
    assert text.count("dgs_stream_holds_back_seconds{") == 2
    assert "\n# <script>" not in text


@pytest.mark.parametrize("given", [None, "Bearer wrong", "sesame-open", "Bearer sesame-open-", "Bearer \xe9"])
def test_metrics_with_a_token_are_only_for_those_who_show_it(given):
    said = []
    with serving(
        MetricsConfig(port=0, token="sesame-open"), "run-1", clock=lambda: NOW, say=said.append
    ) as take:
        take(FULL)
        url = re.search(r"http://\S+", said[-1])[0]
        for path in (url, url.removesuffix("metrics"), f"{url}?name[]=dgs_events_total"):
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                urllib.request.urlopen(
                    urllib.request.Request(path, headers={"Authorization": given} if given else {})
                )
            assert refused.value.read() == b""
        right = urllib.request.Request(url, headers={"Authorization": "Bearer sesame-open"})
        with closing(urllib.request.urlopen(right)) as answer:
            assert "dgs_events_total{" in answer.read().decode()
    assert "sesame" not in "".join(said) + repr(MetricsConfig(port=0, token="sesame-open"))


def test_metrics_stay_on_this_machine_unless_a_host_is_given():
    said = []
    with serving_here(said=said):
        assert "http://127.0.0.1:" in said[0]


def test_a_taken_port_is_an_error():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(MetricsPortError, match=f"127.0.0.1:{port}: another process listens there"),
            serving_here(port),
        ):
            pass


def test_the_port_is_free_after_the_run():
    said = []
    with serving_here(said=said):
        port = int(re.search(r":(\d+)/", said[0])[1])
    with serving_here(port):
        pass


def test_series_of_many_workers_are_those_of_hosts():
    workers = {f"w{i}": WorkerFigures(i % 2, events=1) for i in range(MOST_WORKERS + 1)}
    said = []
    with serving_here(said=said) as take:
        take(RunFigures(t=NOW, name="wide", workers=workers))
        found = values(scraped(said))
    events = {
        name: float(value) for name, value in found.items() if name.startswith("dgs_worker_events_total")
    }
    assert sum(events.values()) == MOST_WORKERS + 1
    assert len(events) == 2


def test_rules_and_dashboard_name_metrics_that_there_are():
    said = []
    with serving_here(said=said) as take:
        take(FULL)
        there = {name.partition("{")[0] for name in values(scraped(said))}
    dashboard = json.loads((OPERATIONS / "grafana.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    asked += (OPERATIONS / "alerts.yml").read_text() + (OPERATIONS / "metrics.md").read_text()
    named = set(re.findall(r"\bdgs_[a-z_]+", asked))
    assert named <= there
    assert {name for name in there if name.startswith("dgs_")} <= set(
        re.findall(r"\bdgs_[a-z_]+", (OPERATIONS / "metrics.md").read_text())
    )


def promtool(*arguments, given=None):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    return subprocess.run(["promtool", *arguments], input=given, capture_output=True, text=True, check=False)


def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", str(OPERATIONS / "alerts.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_metrics():
    said = []
    with serving_here(said=said) as take:
        take(FULL)
        done = promtool("check", "metrics", given=scraped(said))
    assert done.returncode == 0, done.stdout + done.stderr


STUCK = """
rule_files: [RULES]
evaluation_interval: 10s
tests:
  - interval: 10s
    input_series:
      - series: 'dgs_stream_holds_back_seconds{plan="fraud", run="r", stream="rules"}'
        values: '0+10x18 0x12'
    alert_rule_test:
      - {eval_time: 80s, alertname: DgsStreamHoldsBack, exp_alerts: []}
      - eval_time: 2m30s
        alertname: DgsStreamHoldsBack
        exp_alerts:
          - exp_labels: {severity: warning, plan: fraud, run: r, stream: rules}
            exp_annotations:
              summary: "fraud: workers have waited 2m 30s for stream rules"
              description: 'Nothing goes on until that stream brings an event or a heartbeat. See "A stream brings nothing" in docs/operations/what-to-do.md.'
      - {eval_time: 4m, alertname: DgsStreamHoldsBack, exp_alerts: []}
"""


def test_the_alert_for_a_stuck_stream_fires_and_clears(tmp_path):
    test = tmp_path / "stuck.yml"
    test.write_text(STUCK.replace("RULES", str(OPERATIONS / "alerts.yml")))
    done = promtool("test", "rules", str(test))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_prometheus_scrapes_a_run(tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    said = []
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with serving_here(said=said, clock=time.time) as take:
        take(FULL)
        target = re.search(r"127.0.0.1:\d+", said[0])[0]
        config = tmp_path / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: 1s}}\nrule_files: [{OPERATIONS / 'alerts.yml'}]\n"
            f"scrape_configs: [{{job_name: dgs, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        server = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert eventually(lambda: answer(port, "dgs_events_total")) == "70"
            assert answer(port, "up") == "1"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=240)


def answer(port, query):
    """Return the value of a query, None if there is none yet."""
    try:
        with closing(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}")) as found:
            result = json.load(found)["data"]["result"]
    except OSError:
        return None
    return result[0]["value"][1] if result else None


def eventually(ask, patience=240.0):
    until = time.monotonic() + patience
    while (found := ask()) is None and time.monotonic() < until:
        time.sleep(0.2)
    return found
