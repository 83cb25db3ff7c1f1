"""The site: it builds with warnings as errors, has every public name, no broken links, and loads nothing from a network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

import dgs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}
MODULES = ("keyed", "vectorised", "monoids", "flow", "pico", "connectors", "testing", "codec", "errors")


class Page(HTMLParser):
    """The ids, links and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        self.loaded += [given[name] for kind, name in LOADED if kind == tag and given.get(name)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of the site, by path."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path: Page(path) for path in place.rglob("*.html") if path.name != "404.html"}


@pytest.mark.slow
def test_no_link_is_dead(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if ":" in link:
                continue
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                dead.append(f"{path.name}: {link}")
    assert len(pages) > 30
    assert not dead


@pytest.mark.slow
def test_nothing_is_loaded_from_a_network(pages):
    loaded = [one for page in pages.values() for one in page.loaded]
    assert loaded
    assert not [one for one in loaded if one.startswith(("http", "//"))]


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(pages):
    ids = next(page.ids for path, page in pages.items() if path.name == "reference.html")
    names = {f"{dgs._HOME[name]}.{name}" for name in dgs.__all__}
    for module in MODULES:
        found = import_module(f"dgs.{module}")
        names |= {f"dgs.{module}.{name}" for name in getattr(found, "__all__", ())}
    assert not names - ids


def test_the_navigation_names_existing_pages():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text, re.MULTILINE))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert listed - there == {"index.md", "reference.md", "changelog.md"}  # generated pages
