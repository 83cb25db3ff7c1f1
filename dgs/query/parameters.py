"""The values of the parameters of a query, which note the names that its text asks for: a name that nothing asks for is a mistake.

>>> given = Parameters({"limit": 3, "form": 2})
>>> given["limit"], "from" in given
(3, False)
>>> print(given.unread("")[0])
Q120: the query reads no parameter 'form'; did you mean 'from'?
    Correct the name, or leave the parameter out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dgs.errors.nearest import did_you_mean
from dgs.query.errors import QueryError

if TYPE_CHECKING:
    from dgs.query.relation import Script


class Parameters(Mapping[str, Any]):
    """Values by name. They note which names are asked for, whether they are there or not."""

    def __init__(self, values: Mapping[str, Any], asked: dict[str, None] | None = None) -> None:
        self._values, self._asked = values, {} if asked is None else asked

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Parameters:
        """Return the values as parameters; parameters are unchanged."""
        return values if isinstance(values, Parameters) else cls(values)

    def made(self, make: Callable[[Any], Any]) -> Parameters:
        """Return parameters with what is made of each value. The names that are asked for are noted in both."""
        return Parameters({name: make(value) for name, value in self._values.items()}, self._asked)

    def unread(self, left_out: str) -> list[QueryError]:
        """Return an error for each name that nothing has asked for. `left_out`: a text with statements that are refused, which may name more."""
        return [
            QueryError.of(
                "Q120",
                f"the query reads no parameter {name!r}{did_you_mean(name, filter(None, self._asked))}",
                "Correct the name, or leave the parameter out.",
                parameter=name,
            )
            for name in self
            if name not in self._asked and not re.search(rf"\b{re.escape(name)}\b", left_out)
        ]

    def check(self, script: Script, text: str) -> None:
        """Raise the first error of `unread`, after a script is made of a text."""
        if wrong := self.unread(text if script.refused else ""):
            raise wrong[0]

    def __getitem__(self, name: str) -> Any:
        self._asked[name] = None
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
