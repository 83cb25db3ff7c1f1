"""Documentation that runs: every Python, YAML and shell block of README.md and docs/, links, and the tables of codes.

Per page, blocks run in order in a directory of their own. A block whose first line is a comment with a file name is written to that file
(the comment stays, except in CSV), so later blocks can use it.
"""

import re
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
from typer.testing import CliRunner

import dgs
from dgs import errors
from dgs.cli.app import VERBS, app
from dgs.job.document import parse
from dgs.job.schema import PlanFile
from tests.pages_from_code import CODE_LINK, REFRESH, outdated_parts, refreshed, wrong_links

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "experiments/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
RECIPES = sorted(page for page in (ROOT / "docs/cookbook").glob("*.md") if page.name != "index.md")
FEW = ("--max-examples", "5")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

PACKAGES = ("dgs", "planner", "workers", "spark_bridge")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:#|--) (\S+\.\w+)\n")
WHOLE = {
    "version": 1,
    "name": "example",
    "program": {"ref": "program.py:Example"},
    "streams": [{"id": "s", "tags": {"kind": "k"}, "source": {"memory": "s"}}],
}
"""The plan file that completes a fragment for validation."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]


def save(block, directory):
    """Write a block that names its file."""
    if named := NAMED.match(block.text):
        text = block.text[named.end() :] if block.language == "csv" else block.text
        (directory / named[1]).write_text(text, encoding="utf-8")


def run_python(block, page, namespace):
    padded = "\n" * (block.line - 1) + block.text  # a traceback shows the line of the page
    exec(compile(padded, str(page), "exec"), namespace)


def validate_yaml(block, page):
    data = parse(block.text, page.name, {"ORDERS_TOKEN": "a-token-for-orders"}).data
    PlanFile.model_validate(data if "version" in data else {**WHOLE, **data})


def run_shell(block, options=()):
    """Run the `dgs` commands of a block; a comment at the end of a line may say how it ends: `# exit 2`.

    `options`: further options for `dgs check`.
    """
    for line in block.text.splitlines():
        command, _, remark = line.partition("  #")
        verb, *arguments = command.split() or [""]
        if verb == "dgs":
            expected = int(found[1]) if (found := re.search(r"exit (\d+)", remark)) else 0
            more = options if arguments[0] == "check" else ()
            done = CliRunner().invoke(app, [*arguments, *more])
            assert done.exit_code == expected, f"{command}\n{done.output}"


@every_page
def test_page_blocks_run(page, tmp_path, monkeypatch):
    run_blocks(page, tmp_path, monkeypatch, FEW if page.parent.name == "cookbook" else ())


@pytest.mark.slow
@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_passes_a_whole_check(page, tmp_path, monkeypatch):
    assert sum(block.text.startswith("dgs check ") for block in blocks(page)) == 1
    run_blocks(page, tmp_path, monkeypatch)


def test_there_are_ten_recipes_and_all_are_listed():
    listed = re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs/cookbook/index.md").read_text())
    assert sorted(listed) == [page.name for page in RECIPES]
    assert len(listed) == 10


def run_blocks(page, tmp_path, monkeypatch, options=()):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": "documentation"}
    for block in blocks(page):
        save(block, tmp_path)
        if block.language == "python":
            run_python(block, page, namespace)
        elif block.language == "yaml":
            validate_yaml(block, page)
        elif block.language == "sh":
            run_shell(block, options)


@every_page
def test_page_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        if heading and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, target


@every_page
def test_page_has_only_blocks_that_are_checked(page):
    assert {block.language for block in blocks(page)} <= {
        "python",
        "yaml",
        "csv",
        "sql",
        "pig",
        "mrql",
        "sh",
        "mermaid",
        "",
    }


def missing(text):
    """Return the files and modules that a text names in `code` but that do not exist."""
    rooms = "|".join((*PACKAGES, "docs", "tests"))
    files = re.findall(rf"`((?:{rooms})/[\w./]+|experiments/[\w./]+\.\w+)`", text)
    dotted = re.findall(r"`(dgs\.[a-z][\w.]*)(?:\(.*?\))?`", text)
    return [name for name in files if not (ROOT / name).exists()] + [
        name for name in dotted if not is_there(name)
    ]


def is_there(dotted):
    """Return whether a dotted name leads to a module, or to something in one."""
    try:
        resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_missing_names_are_found():
    assert not missing("`dgs.run(3)` is in `dgs/api`, with `dgs.model.outputs.OutputBatch`")
    assert missing("`dgs.nothing`, `dgs/nothing.py`, `dgs.model.outputs.nothing()`") == [
        "dgs/nothing.py",
        "dgs.nothing",
        "dgs.model.outputs.nothing",
    ]


@every_page
def test_page_names_existing_definitions(page):
    before = "| before | now |"  # a table of old names
    text = re.sub(rf"{re.escape(before)}.*?\n\n", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not missing(text)


@every_page
def test_page_agrees_with_the_code(page):
    text = page.read_text(encoding="utf-8")
    assert not outdated_parts(text), REFRESH
    assert not wrong_links(page, text), REFRESH
    assert len(CODE_LINK.findall(text)) == text.count(".py#L"), "a link to a line has the name in `code`"


@pytest.fixture
def box(tmp_path):
    """A page with a module beside it."""
    text = "LIMIT = 3\n\n\nclass Box:\n    def open(self):\n        return 1\n"
    (tmp_path / "box.py").write_text(text, encoding="utf-8")
    return tmp_path / "page.md"


@pytest.mark.parametrize(("name", "line"), [("Box.open", 5), ("Box.open", 6), ("Box", 4), ("LIMIT", 1)])
def test_a_link_into_a_definition_is_right(box, name, line):
    assert not wrong_links(box, f"[`{name}`](box.py#L{line})")


@pytest.mark.parametrize(
    ("name", "place"), [("Box.open", "box.py#L400"), ("Box.shut", "box.py#L5"), ("Box", "bag.py#L4")]
)
def test_a_link_to_a_missing_definition_is_wrong(box, name, place):
    assert wrong_links(box, f"[`{name}`]({place})")


def test_a_page_is_updated_from_the_code(box):
    old = "<!-- made from the code: listing -->\n<!-- end -->\n[`Box.open`](box.py#L1)"
    assert outdated_parts(old) == ["listing"]
    new = refreshed(box, old)
    assert not outdated_parts(new)
    assert new.endswith("[`Box.open`](box.py#L5)")


REFERENCE = re.compile(
    r"\b((?i:section|appendix|app\.|definition|theorem|lemma|figure)) ([1-9]\d*(?:\.\d+)*|[A-H](?:\.\d+)?)\b"
)


def references_in(text):
    """Return the sections of the DGS paper that a text names."""
    words = ((word.lower().replace("app.", "appendix"), number) for word, number in REFERENCE.findall(text))
    return {f"{word.capitalize()} {number}" for word, number in words}


def test_references_are_found_however_they_are_written():
    said = "as the paper's section 2 says (Section 3.4, App. D.2; Definition 2.1, clause 2), in the section of a file"
    assert references_in(said) == {"Section 2", "Section 3.4", "Appendix D.2", "Definition 2.1"}


def test_papers_page_lists_every_place_that_the_code_names():
    folders = (*PACKAGES, "experiments", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    named = {place for path in files for place in references_in(path.read_text(encoding="utf-8"))}
    named |= {place for page in PAGES for place in references_in(page.read_text(encoding="utf-8"))}
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    first_column = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    assert "Section 3.4" in named
    assert named == {cell for cell in first_column if REFERENCE.fullmatch(cell)}


def test_version_and_licence_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = parse((ROOT / "CITATION.cff").read_text(encoding="utf-8"), "CITATION.cff", {}).data
    assert project["version"] == dgs.__version__ == citation["version"]
    assert project["license"] == citation["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert f"## {dgs.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_citation_refers_to_the_paper():
    citation = parse((ROOT / "CITATION.cff").read_text(encoding="utf-8"), "CITATION.cff", {}).data
    papers = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (paper,) = citation["references"]
    assert f"https://doi.org/{paper['doi']}" in papers
    assert all(f"{author['given-names']} {author['family-names']}" in papers for author in paper["authors"])


def all_errors(cls=errors.DgsError):
    for sub in cls.__subclasses__():
        if sub.__module__.split(".")[0] in PACKAGES:
            yield sub
            yield from all_errors(sub)


def test_errors_page_lists_every_code_with_its_name_and_exit_code():
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if re.search(r'^ {4}code = "DGS', path.read_text(encoding="utf-8"), re.MULTILINE):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            import_module(f"dgs.{name.removeprefix('dgs.')}")
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(DGS\d+)` \| `(\w+)` \| (\d+) \| .+ \|$", text, re.MULTILINE)
    assert rows == sorted({(cls.code, cls.__name__, str(cls.exit_code)) for cls in all_errors()})
    assert len({code for code, *_ in rows}) == len(rows)


def test_cli_page_lists_every_verb():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `dgs (\w+)", text, re.MULTILINE)
    assert listed == list(VERBS)


def test_plan_file_page_names_every_key():
    text = (ROOT / "docs" / "plan-file.md").read_text(encoding="utf-8")
    schema = PlanFile.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = {key for section in sections for key in section.get("properties", {})}
    assert {key for key in keys if not re.search(rf"\b{key}\b", text)} == set()
