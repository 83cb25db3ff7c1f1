"""Examples in docstrings as blocks of code: an extension of griffe, which reads the docstrings for the reference."""

from typing import Any

import griffe


class FencedDoctests(griffe.Extension):
    """Puts a fence around each run of lines from `>>>` to the next blank line."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Return a text with its examples in fences.

    >>> fenced("It adds.\n\n>>> 1 + 1\n2").split("\n")
    ['It adds.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    lines: list[str] = []
    is_inside = False
    for line in [*text.split("\n"), ""]:
        if not is_inside and line.lstrip().startswith(">>> "):
            is_inside = True
            lines += ["", "```pycon"] if lines and lines[-1].strip() else ["```pycon"]
        if is_inside and not line.strip():
            is_inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join(lines[:-1])
