"""What all sections of plan.yaml have in common.

>>> class Colour(Choice):
...     red: bool | None = None
...     named: str | None = None
>>> Colour.model_validate({"named": "blue"}).kind
'named'
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

Scalar = int | float | str | bool


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
