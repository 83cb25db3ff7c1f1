"""A browser for tests of the page: it notes every message of the console and every request."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Visit:
    """A page in a browser. `problems`: errors and warnings of its console. `requests`: the addresses that it asked for."""

    def __init__(self, page):
        self.page = page
        self.problems, self.requests = [], []
        page.on(
            "console",
            lambda message: (
                self.problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def text(self, slot):
        """Return the text of a slot."""
        return self.page.locator(f'[data-s="{slot}"]').first.text_content()

    def wait_for(self, selector, text, seconds=5.0):
        """Wait until a part of the page has a text; fail after so many seconds."""
        self.page.locator(selector).filter(has_text=text).first.wait_for(timeout=1000 * seconds)

    def overflow(self):
        """Return the pixels by which the page is wider than its window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def violations(self):
        """Return the findings of an accessibility checker."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
        )
        found = axe.Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


@contextmanager
def browser():
    """Yield a function that opens an address; skip the test where there is no browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield lambda where, **options: _visit(started, where, options)
        finally:
            started.close()


def _visit(started, where, options):
    window = {"width": options.pop("width", 1280), "height": 900}
    context = started.new_context(viewport=window, bypass_csp=options.pop("is_checked", False), **options)
    visit = Visit(context.new_page())
    visit.page.goto(where.as_uri() if isinstance(where, Path) else where)
    return visit
