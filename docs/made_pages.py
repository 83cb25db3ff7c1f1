"""The site's own pages: the start from README.md, the changelog, and the reference of all public names from their docstrings.

mkdocs calls the functions `on_...` (`hooks:` in mkdocs.yml). Links to files outside of docs/ become their text: the site has only docs.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import dgs

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MODULES = ("keyed", "vectorised", "monoids", "flow", "pico", "connectors", "testing", "codec", "errors")
"""Public modules besides the names of `dgs` itself."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
MERMAID = re.compile(r"^```mermaid$", re.MULTILINE)


MADE = ("index.md", "changelog.md", "reference.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put all pages about operating a run into the navigation, and those that it does not name."""
    listed = str(config.nav)
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    operating = [name for name in pages if name.startswith("operations/")]
    more = [name for name in pages if name not in operating and f"'{name}'" not in listed]
    config.nav[-2:-2] = [{"Operating": operating}, *([{"More": more}] if more else [])]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {
        "index.md": from_root((ROOT / "README.md").read_text(encoding="utf-8")),
        "changelog.md": from_root((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        "reference.md": reference(),
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return a page without links that leave the site."""
    here = (DOCS / page.file.src_uri).parent

    def checked(link: re.Match[str]) -> str:
        target = link[3].partition("#")[0]
        found = (here / target).resolve()
        is_there = found.is_relative_to(DOCS) and (found.is_file() or str(found.relative_to(DOCS)) in MADE)
        return link[0] if is_there or not target or "://" in target else link[2]

    return MERMAID.sub("```text", LINK.sub(checked, markdown))


def from_root(markdown: str) -> str:
    """Return a page of the root as one of docs/."""
    return markdown.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")


def reference() -> str:
    """Return the reference: all names of `dgs`, then its public modules."""
    names = "\n\n".join(f"::: {dgs._HOME[name]}.{name}" for name in dgs.__all__)
    modules = "\n\n".join(f"::: dgs.{name}" for name in MODULES)
    return f"# Public names\n\nAll that `import dgs` gives, and its public modules.\n\n{names}\n\n{modules}\n"
