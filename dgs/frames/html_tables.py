"""Tables and sentences as static HTML for notebooks, without scripts. All text is escaped.

>>> table_html(["key", "value"], [("<b>", 5)], 1).count("&lt;b&gt;")
1
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

LONGEST = 200
"""Characters of a value that are shown."""


def paragraph(name: str, said: str) -> str:
    """Return a sentence about something with a name."""
    return f"<p><strong>{_text(name)}</strong>: {_text(said)}</p>"


def link(path: Path, said: str) -> str:
    """Return a link to a file, relative to the directory of the notebook."""
    return f'<p><a href="{escape(quote(os.path.relpath(path)))}">{_text(said)}</a></p>'


def table_html(names: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> str:
    """Return rows as a table. `count`: of how many they are the first."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    left = f"<p>{count - len(rows):,} more rows</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}...")
