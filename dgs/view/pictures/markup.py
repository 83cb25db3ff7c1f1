"""Elements of HTML and SVG, with every attribute and text escaped. All markup of the page is made here.

>>> element("text", "a < b", x=1.25, class_="dim", data_s="w1.rate")
'<text x="1.2" class="dim" data-s="w1.rate">a &lt; b</text>'
>>> element("g", Markup(element("path", d="M0 0")), element("rect"))
'<g><path d="M0 0"/><rect/></g>'
"""

from __future__ import annotations

from html import escape

from dgs.view.pictures.texts import clean

_VOID = frozenset({"path", "rect", "line", "circle", "polygon", "polyline", "input", "meta", "link", "br"})


class Markup(str):
    """A text that is markup already."""

    __slots__ = ()


def element(name_: str, /, *content: str, **attributes: float | str | None) -> Markup:
    """Return an element. A content that is not `Markup` is text. Attributes that are None are left out; `class_` is `class`."""
    parts = [f"<{name_}"]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else clean(value, 10**6)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    inner = "".join(part if isinstance(part, Markup) else escape(clean(part, 10**6)) for part in content)
    parts.append("/>" if not inner and name_ in _VOID else f">{inner}</{name_}>")
    return Markup("".join(parts))


def joined(parts: list[Markup]) -> Markup:
    """Return elements one after another."""
    return Markup("".join(parts))


def cut(text: str, most: int) -> str:
    """Return a text that fits into a drawing: its beginning and its end, if it has more than `most` characters.

    >>> cut("view(JFK) from flights/0", 14)
    'view(JF…ghts/0'
    """
    text = clean(text)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - most // 2 - 1) :]}"
