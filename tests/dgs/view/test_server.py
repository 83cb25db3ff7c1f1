"""The live page: only with the token, the right host name and origin; and a page in a browser that follows a run."""

import http.client
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dgs.observe import SinkFigures
from dgs.view.moments import Placed
from dgs.view.page_feed import Feed
from dgs.view.run_reading import RunView
from dgs.view.server import PortTakenError, listening, new_token, serve
from dgs.workers.observing.figure_lines import FiguresFile
from tests.dgs.view.drawn_runs import figures_of, tree
from tests.dgs.view.left_runs import leave
from tests.dgs.view.test_page import HOSTILE

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")


@contextmanager
def served(directory, status=lambda: "running"):
    """Serve the page of a run in a thread; yield its port and token."""
    place, token = listening(0), new_token()
    port, is_wanted = place.getsockname()[1], [True]
    view = RunView(directory, status)
    options = {"is_wanted": lambda: is_wanted[0]}
    thread = threading.Thread(target=serve, args=(Feed(view), place, token), kwargs=options)
    thread.start()
    try:
        yield port, token
    finally:
        is_wanted[0] = False
        thread.join(240)
        view.close()
        place.close()
    assert not thread.is_alive()


def asked(port, path, host=None, method="GET", **headers):
    """Return the status, headers and beginning of the answer to a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read(200).decode()
    connection.close()
    return found


@pytest.fixture(scope="module")
def page_of_a_run(tmp_path_factory):
    with served(leave(tmp_path_factory.mktemp("run"), seconds=5, status="running")) as found:
        yield found


@pytest.mark.parametrize(
    "path",
    ["/", "/events", "/favicon.ico", "/../../etc/passwd", "/?token=", "/events?token=x", "/?token=%ff"],
)
def test_without_the_token_everything_is_refused(page_of_a_run, path):
    port, _ = page_of_a_run
    status, _, body = asked(port, path)
    assert status == 403
    assert "payments" not in body


def test_the_token_given_twice_or_in_part_is_refused(page_of_a_run):
    port, token = page_of_a_run
    for query in (f"token={token}&token={token}", f"token={token[:-1]}", f"Token={token}"):
        assert asked(port, f"/?{query}")[0] == 403


@pytest.mark.parametrize("path", ["/", "/events"])
def test_a_foreign_host_or_origin_is_refused_also_with_the_token(page_of_a_run, path):
    port, token = page_of_a_run
    there = f"{path}?token={token}"
    assert asked(port, there)[0] == 200
    assert asked(port, there, host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example"):
        assert asked(port, there, host=host)[0] == 403
    assert asked(port, there, Origin=f"http://127.0.0.1:{port}")[0] == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"127.0.0.1:{port}"):
        assert asked(port, there, Origin=origin)[0] == 403


def test_only_reading_is_possible(page_of_a_run):
    port, token = page_of_a_run
    for method in ("POST", "PUT", "DELETE"):
        assert asked(port, f"/?token={token}", method=method)[0] == 405
    assert asked(port, f"/plan.yaml?token={token}")[0] == 404


def test_answers_forbid_scripts_frames_and_caches(page_of_a_run):
    port, token = page_of_a_run
    for path in ("/", "/events"):
        headers = {name.lower(): value for name, value in asked(port, f"{path}?token={token}")[1].items()}
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert not [name for name in headers if name.startswith("access-control")]


def test_a_port_that_is_taken_is_named(page_of_a_run):
    port, _ = page_of_a_run
    with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}"):
        listening(port)


def test_the_first_message_has_a_whole_scene_and_the_next_what_changed(tmp_path):
    plan = tree(6)
    directory = leave(tmp_path, plan, seconds=5, status="running")
    file = FiguresFile(directory, warn=print)
    with served(directory) as (port, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
        connection.request("GET", f"/events?token={token}")
        answer = connection.getresponse()
        whole = _message(answer)
        file.add(figures_of(plan, 6))
        part = _message(answer)
        connection.close()
    assert whole["moment"]["changes"]["w0.rate"]
    assert part["moment"]["at"] == 6.0
    assert 0 < len(part["moment"]["changes"]) < len(whole["moment"]["changes"])


def _message(answer):
    for line in iter(answer.readline, b""):
        if line.startswith(b"data: "):
            return json.loads(line.removeprefix(b"data: "))
    raise AssertionError


def test_an_open_page_shows_a_restart_within_two_seconds(tmp_path, visit):
    plan = tree(6)
    directory = leave(tmp_path, plan, seconds=10, status="running")
    file = FiguresFile(directory, warn=print)
    with served(directory) as (port, token):
        opened = visit(f"http://127.0.0.1:{port}/?token={token}")
        assert "Nothing but work" in opened.page.locator("#happenings").inner_text()
        file.add(figures_of(plan, 11, restart=10.5))
        opened.wait_for("#happenings", "host 2 was lost", 2.0)
        opened.wait_for("[data-s=clock]", "11.0 s")
        assert opened.problems == []
        assert {url.partition("?")[0] for url in opened.requests} == {
            f"http://127.0.0.1:{port}/",
            f"http://127.0.0.1:{port}/events",
        }
        opened.page.context.close()


def test_updates_of_an_open_page_never_become_markup(tmp_path, visit):
    plan = (Placed("w0", None), *(Placed(text, 0) for text in HOSTILE))
    directory = leave(tmp_path, plan, seconds=10, status="running", mute=HOSTILE[0], streams=30)
    file = FiguresFile(directory, warn=print)
    why = " ".join(HOSTILE)
    with served(directory) as (port, token):
        opened = visit(f"http://127.0.0.1:{port}/?token={token}")
        figures = figures_of(plan, 11, restart=10.5, mute=HOSTILE[0], streams=30)
        file.add(
            replace(
                figures,
                generations=(replace(figures.generations[0], why=why), *figures.generations[1:]),
                streams=dict(zip(HOSTILE, figures.streams.values(), strict=True)),
                sinks=dict.fromkeys(HOSTILE, SinkFigures(3)),
            )
        )
        opened.wait_for("#happenings", HOSTILE[0])
        assert opened.page.locator("#hit, img, a, b").count() == 0
        assert opened.page.locator("script").count() == 2
        assert opened.page.evaluate("window.hit") is None
        assert opened.problems == []
        opened.page.context.close()


def test_an_open_page_shows_that_its_run_was_killed_and_keeps_its_past(tmp_path, visit):
    directory = leave(tmp_path, seconds=10, status="running")
    status = ["running"]
    with served(directory, lambda: status[0]) as (port, token):
        opened = visit(f"http://127.0.0.1:{port}/?token={token}")
        status[0] = "killed"
        opened.wait_for("[data-s=status]", "killed")
        opened.page.focus("#range")
        opened.page.keyboard.press("Home")
        assert opened.text("clock") == "1.0 s"
        opened.page.context.close()


def test_a_page_opened_before_the_first_figures_is_drawn_when_they_come(tmp_path, visit):
    plan = tree(3)
    directory = leave(tmp_path, plan, seconds=1, status="running")
    with served(directory) as (port, token):
        opened = visit(f"http://127.0.0.1:{port}/?token={token}")
        assert opened.text("sentence") == "The run is starting."
        file = FiguresFile(directory, warn=print)
        file.add(figures_of(plan, 1))
        opened.page.wait_for_selector("svg.streams g.stream", timeout=5000)
        file.add(figures_of(plan, 2))
        opened.wait_for("[data-s=clock]", "2.0 s")
        assert opened.problems == []
        opened.page.context.close()


def test_200_workers_and_500_streams_are_reported_within_a_second(tmp_path):
    plan = tree(200)
    directory = leave(tmp_path, plan, seconds=30, status="running", streams=500)
    view = RunView(directory, lambda: "running")
    feed = Feed(view)
    file = FiguresFile(directory, warn=print)
    with feed.listening() as queue:
        taken = []
        for second in (30, 31, 32):
            file.add(figures_of(plan, second, streams=500))
            began = time.process_time()
            for message in feed._news():
                feed._tell(*message)
            taken.append(time.process_time() - began)
    view.close()
    assert min(taken) < 0.5
    assert queue.qsize() == 3
