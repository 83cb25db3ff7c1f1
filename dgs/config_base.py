"""What all sections of plan.yaml have in common.

>>> class Colour(Choice):
...     red: bool | None = None
...     named: str | None = None
>>> Colour.model_validate({"named": "blue"}).kind
'named'
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

Scalar = int | float | str | bool

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str) -> str:
    """Return a path as it is. Raises ValueError for an address, which would become a directory of that name here.

    >>> local_path("out/2026:01")
    'out/2026:01'
    >>> local_path("s3a://bucket/out")
    Traceback (most recent call last):
    ValueError: 's3a://bucket/out' is an address, and a path in the file system is needed, such as that of a mounted directory
    >>> local_path("file:/out")
    Traceback (most recent call last):
    ValueError: 'file:/out' is an address, and a path in the file system is needed: '/out'
    """
    found = _ADDRESS.match(path)
    if found is None:
        return path
    advice = ", such as that of a mounted directory"
    if found[0].lower() == "file:/":
        advice = f": {'/' + path[len(found[0]) :].lstrip('/')!r}"
    raise ValueError(f"{path!r} is an address, and a path in the file system is needed{advice}")


LocalPath = Annotated[str, AfterValidator(local_path)]
"""A path that is read or written without Spark."""


class Section(BaseModel):
    """A section of plan.yaml: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(Section):
    """A section of which exactly one key is given: its kind."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"minProperties": 1, "maxProperties": 1}
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"exactly one of {', '.join(type(self).model_fields)} is needed, got {', '.join(given) or 'none'}"
            )
        return self

    @property
    def kind(self) -> str:
        """The key that is given, such as `csv`."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def details(self) -> Any:
        """The section of that key."""
        return getattr(self, self.kind)
