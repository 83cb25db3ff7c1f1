"""The generated parts of docs/: the picture of the rooms, and the lines on which names are defined.

`python -m tests.pages_from_code` writes both anew. `test_docs.py` fails where a page differs from the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

from tests.test_architecture import PACKAGES, ROOT, arrows, modules, room_of, without_face

ARCHITECTURE = ROOT / "docs" / "architecture.md"
REFRESH = "run `make pages`"
"""The command that updates an outdated page."""

FACES = {"dgs/__init__.py", "dgs/__main__.py", "workers/__init__.py"}
"""Modules outside of all rooms: they have names and no code."""

NEAR = 60
"""Lines by which a link may miss its definition, so that not every change of a module changes a page."""

PART = re.compile(r"(<!-- made from the code: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
"""A generated part of a page: its name and text."""
CODE_LINK = re.compile(r"\[`([\w.]+)`\]\(([\w./]+\.py)#L(\d+)\)")
"""A link to a definition: its name, its file, the line on which it begins."""


@cache
def rooms() -> nx.DiGraph:
    """Return the rooms of the packages with their floors, and which imports from which."""
    graph = nx.DiGraph()
    for path, tree in modules(*PACKAGES):
        floor, room = room_of(path)
        graph.add_node(room, floor=floor)
        found = {room_of(target)[1] for target in arrows(without_face(path, tree))}
        graph.add_edges_from((room, other) for other in found - {room})
    graph.remove_nodes_from(FACES & graph.nodes)
    return graph


def from_the_top() -> list[str]:
    """Return the rooms, the highest floor first."""
    floors = rooms().nodes(data="floor")
    return [room for room, _ in sorted(floors, key=lambda found: (-found[1], found[0]))]


def part_of(room: str) -> str:
    """Return the part of the house that a room is in. `dgs` is the core below the planner, and the front above it."""
    package = room.partition("/")[0]
    if package != "dgs":
        return package
    floors = rooms().nodes(data="floor")
    return "front" if floors[room] > floors["planner"] else "core"


def picture() -> str:
    """Return the rooms as a Mermaid diagram. An arrow that follows from two others is left out."""
    shown = nx.transitive_reduction(rooms())
    lines = ["```mermaid", "flowchart TD"]
    for part in dict.fromkeys(map(part_of, from_the_top())):
        title = {"core": "dgs, the core", "front": "dgs, the front"}.get(part, part)
        lines.append(f'  subgraph part_{part} ["{title}"]')
        lines += [
            f'    {node_of(room)}["{label_of(room)}"]' for room in from_the_top() if part_of(room) == part
        ]
        lines.append("  end")
    arrows_of = {room: " & ".join(map(node_of, sorted(shown[room]))) for room in from_the_top()}
    lines += [f"  {node_of(room)} --> {below}" for room, below in arrows_of.items() if below]
    return "\n".join([*lines, "```", ""])


def node_of(room: str) -> str:
    """Return the name of a room's node."""
    return re.sub(r"\W", "_", room.removesuffix(".py"))


def label_of(room: str) -> str:
    """Return what is written into a room's box."""
    return room.rpartition("/")[2].removesuffix(".py")


def listing() -> str:
    """Return the rooms as a table with the first sentence of each."""
    lines = ["", "| room | what it is |", "|---|---|"]
    lines += [f"| [`{room}`](../{room}) | {first_sentence(room)} |" for room in from_the_top()]
    return "\n".join([*lines, "", ""])


def first_sentence(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    path = ROOT / room
    module = path if path.is_file() else path / "__init__.py"
    said = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    return re.split(r"[.](?:\s|$)", " ".join(said.split()))[0].replace("|", "\\|")


PARTS = {"picture": picture, "listing": listing}


def outdated_parts(text: str) -> list[str]:
    """Return the generated parts of a page that differ from the code."""
    return [name for _, name, said, _ in PART.findall(text) if said != PARTS[name]()]


@cache
def definitions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the first and the last line of each definition of a module, by name: `Class`, `Class.method`, `CONSTANT`."""
    return dict(_defined(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _defined(body: list[ast.stmt], within: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield within + node.name, (node.lineno, last)
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{within}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (within + target.id, (node.lineno, last))
                for target in targets
                if isinstance(target, ast.Name)
            )


def wrong_links(page: Path, text: str) -> list[str]:
    """Return the links of a page that name no definition, or lead to a line far from it."""
    wrong = []
    for name, file, line in CODE_LINK.findall(text):
        path = (page.parent / file).resolve()
        first, last = definitions(path).get(name, (0, -1)) if path.is_file() else (0, -1)
        if not first or not first - NEAR <= int(line) <= last + NEAR:
            wrong.append(f"{file} has no {name} near line {line}")
    return wrong


def refreshed(page: Path, text: str) -> str:
    """Return the updated text of a page. A link that names no definition stays, for `wrong_links`.

    A link that still leads into its definition does not change: concurrent work conflicts less.
    """

    def moved(link: re.Match[str]) -> str:
        name, file, line = link.groups()
        first, last = definitions((page.parent / file).resolve()).get(name, (0, int(line)))
        return link[0] if first <= int(line) <= last else f"[`{name}`]({file}#L{first})"

    text = PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}{part[4]}", text)
    return CODE_LINK.sub(moved, text)


def main() -> None:
    """Write all pages anew."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if (now := refreshed(page, text)) != text:
            page.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
