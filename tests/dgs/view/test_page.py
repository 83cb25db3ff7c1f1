"""The page in a real browser: it is complete, without console messages, accessible, and escapes foreign texts."""

import re
from contextlib import closing
from dataclasses import replace

import pytest

from dgs.view.moments import Placed
from dgs.view.page import page
from dgs.view.report_file import write_picture, write_report
from dgs.view.run_reading import RunView
from dgs.workers.observing.figure_lines import FiguresFile
from tests.dgs.view.drawn_runs import figures_of, tree
from tests.dgs.view.left_runs import leave

HOSTILE = [
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "'><b id=hit>x</b>",
    "</title><b id=hit>",
    "</style><b id=hit>",
    "</svg><b id=hit>",
    "<!--",
    "-->",
    "]]>",
    "&lt;b&gt;",
    "&#60;b id=hit&#62;",
    "javascript:window.hit=1",
    "${window.hit=1}",
    "{{7*7}}",
    "\\u003cb id=hit\\u003e",
    "\u2028window.hit=1",
    "\u202egnp.exe",
    "a\x00b",
    "\x1b[31mred",
    "line\nfeed",
    "\ud7ff\ufffe",
    "__proto__",
    "constructor",
    "w0.rate",
    "x@onclick",
    "' onfocus=window.hit=1 autofocus='",
    "<a href=http://evil.example>here</a>",
    "A" * 5000,
]


def seen_in(directory, status="done"):
    with closing(RunView(directory, lambda: status)) as view:
        return view.seen()


def report_of(tmp_path, status="done", **how):
    seen = seen_in(leave(tmp_path, status=status, **how), status)
    write_report(seen, tmp_path / "report.html")
    return tmp_path / "report.html"


@pytest.mark.parametrize(
    ("workers", "streams", "scheme"),
    [
        (3, 3, "dark"),
        (20, 9, "light"),
        pytest.param(200, 500, "light", marks=pytest.mark.slow),
        pytest.param(200, 500, "dark", marks=pytest.mark.slow),
    ],
)
def test_a_report_is_quiet_accessible_and_asks_for_nothing(tmp_path, visit, scheme, workers, streams):
    path = report_of(tmp_path, "killed", plan=tree(workers), streams=streams, mute_since=40, restart=20)
    opened = visit(path, color_scheme=scheme, is_checked=True)
    opened.page.click("summary")
    assert opened.problems == []
    assert opened.violations() == []
    assert opened.requests == [path.as_uri()]
    assert path.stat().st_size < 1_000_000


def test_a_report_fits_a_narrow_window(tmp_path, visit):
    opened = visit(report_of(tmp_path, plan=tree(20), mute_since=40), width=400)
    assert opened.overflow() <= 0
    opened.page.click("summary")
    assert opened.overflow() <= 0


def test_the_policy_lets_our_script_run_and_no_other(tmp_path, visit):
    path = report_of(tmp_path)
    path.write_text(path.read_text().replace("</body>", "<script>window.hit=1</script></body>"))
    opened = visit(path)
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.locator("#slider").is_visible()


def test_the_slider_shows_the_run_as_it_was(tmp_path, visit):
    opened = visit(report_of(tmp_path, "killed", mute_since=40))
    assert opened.text("sentence") == "The process of the run was killed."
    opened.page.focus("#range")
    opened.page.keyboard.press("Home")
    assert opened.text("clock") == "1.0 s"
    assert "Nothing waits" in opened.text("sentence")
    for _ in range(49):
        opened.page.keyboard.press("ArrowRight")
    assert opened.text("clock") == "50.0 s"
    assert opened.text("sentence").startswith("Worker w0 waits for stream 'rules' to pass")
    assert opened.page.locator("g.worker.held").count() == 5


def test_streams_and_sinks_that_a_moment_does_not_know_are_not_shown(tmp_path, visit):
    directory = leave(tmp_path, seconds=1, status="running")
    file = FiguresFile(directory, warn=print)
    whole = figures_of(tree(6), 2)
    for figures in (replace(whole, t=whole.t - 1, streams={}, sinks={}), whole):
        file.add(figures)
    seen = seen_in(directory, "killed")
    write_picture(seen, tmp_path / "run.svg", at=1)
    assert "payments/0" not in (tmp_path / "run.svg").read_text()
    write_report(seen, tmp_path / "report.html")
    opened = visit(tmp_path / "report.html")
    assert opened.page.locator("g.stream:visible").count() == 3
    opened.page.focus("#range")
    opened.page.keyboard.press("Home")
    assert opened.page.locator("g.stream:visible").count() == 0
    assert "parquet" not in opened.page.locator("#sinks").inner_text()


def test_a_click_on_a_chart_goes_to_its_moment(tmp_path, visit):
    opened = visit(report_of(tmp_path))
    chart = opened.page.locator("svg.chart").first
    box = chart.bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] * 0.58, box["y"] + 40)
    assert 25 < float(opened.text("clock").removesuffix(" s")) < 40


def test_a_worker_tells_its_tags_lanes_and_story(tmp_path, visit):
    opened = visit(report_of(tmp_path, "running", mute_since=40))
    opened.page.click('g[data-w="3"]')
    told = opened.page.locator("#worker").inner_text()
    assert "payment(4) from payments/4" in told
    assert "payments/4: payment(4)" in told
    story = opened.page.locator("#worker-story li").all_inner_texts()
    assert "works" in story[0]
    assert "waits for w2" in story[-1]


def test_the_plan_is_walked_by_keys(tmp_path, visit):
    opened = visit(report_of(tmp_path))
    opened.page.locator('g[data-w="0"]').focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#worker-name").inner_text() == "Worker w1"
    assert opened.page.locator('g[data-w="1"]').get_attribute("aria-pressed") == "true"


def test_without_a_script_the_picture_and_the_numbers_are_there(tmp_path, visit):
    opened = visit(report_of(tmp_path, "running", mute_since=40), java_script_enabled=False)
    assert (
        opened.page.locator('[data-s="sentence"]')
        .inner_text()
        .startswith("Worker w0 waits for stream 'rules'")
    )
    assert opened.page.locator("g.worker.held").count() == 5
    assert opened.page.locator('td[data-s="w3.held"]').text_content().endswith("k")


@pytest.mark.parametrize("status", ["running", "failed"])
def test_hostile_texts_are_shown_as_texts(tmp_path, visit, status):
    plan = (Placed("w0", None), *(Placed(text, 0, tags=f"{text} from {text}") for text in HOSTILE))
    results = {"error": {"message": " ".join(HOSTILE)}}
    directory = leave(
        tmp_path, plan, seconds=4, status=status, mute_since=2, mute=HOSTILE[0], results=results
    )
    odd = figures_of(plan, 5, mute_since=2, mute=HOSTILE[0])
    streams = dict(zip(HOSTILE, [*odd.streams.values()] * 30, strict=False))
    sinks = dict(zip(HOSTILE, [*odd.sinks.values()] * 30, strict=False))
    with (directory / "figures.ndjson").open("a") as file:
        from dgs.workers.observing.figure_lines import line_of

        file.write(line_of(replace(odd, streams=streams, sinks=sinks)) + "\n")
    path = tmp_path / "report.html"
    write_report(seen_in(directory, status), path)
    opened = visit(path)
    for number in range(1, 31):
        opened.page.locator(f'button[data-w="{number}"]').dispatch_event("click")
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.locator("#hit, img, a, b").count() == 0
    assert opened.page.locator("script").count() == 2
    assert opened.problems == []
    assert opened.page.locator(f'button[data-w="{1}"]').text_content() == HOSTILE[0]
    assert not re.search("[\u202e\x00\x1b]", path.read_text())


def test_a_picture_is_one_drawing_that_a_parser_of_xml_reads(tmp_path):
    from xml.etree import ElementTree as ET

    plan = (Placed("w0", None), *(Placed(text, 0, tags=text) for text in HOSTILE))
    seen = seen_in(leave(tmp_path, plan, seconds=9, status="running", mute_since=2), "running")
    write_picture(seen, tmp_path / "run.svg")
    root = ET.parse(tmp_path / "run.svg").getroot()
    assert root.tag.endswith("svg")
    assert "waits for stream 'rules'" in "".join(root.itertext())


def test_a_page_takes_no_more_than_its_budget(tmp_path):
    seen = seen_in(leave(tmp_path, tree(200), seconds=60, streams=50))
    assert len(page(seen, budget=200_000).html) < 200_000 + len(page(seen, most=2).html)
