"""The base of all sections of plan.yaml.

>>> class Colour(Choice):
...     red: bool | None = None
...     named: str | None = None
>>> Colour.model_validate({"named": "blue"}).kind
'named'
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dgs.errors.hidden_values import masked
from dgs.job.units import (
    BYTES,
    NANOSECONDS,
    local_path,
    parse_duration,
    parse_pace,
    parse_rate,
    parse_size,
    place_of_spark,
    shown,
)


def _whole(value: Any) -> Any:
    is_text = isinstance(value, str)
    if isinstance(value, bool) or (is_text and not re.fullmatch(r"[-+]?[0-9]+", value, re.ASCII)):
        raise PydanticCustomError("int_type", "expected a whole number")
    return value


def _flag(value: Any) -> Any:
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise PydanticCustomError("bool_type", "expected true or false")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number, also as digits in quotes, which may be those of an environment variable. `true` is refused."""

Flag = Annotated[bool, BeforeValidator(_flag)]
"""True or false, also in quotes. No other word and no number stands for one."""

Yes = Annotated[Literal[True], BeforeValidator(_flag)]
One = Annotated[Literal[1], BeforeValidator(lambda value: value if type(value) is int else None)]
"""Exactly this value: a Literal alone also accepts an equal value, such as `1` for `true`."""

Count = Annotated[Whole, Field(le=2**31 - 1)]
"""A whole number that counts things."""

Scalar = int | Annotated[float, Field(allow_inf_nan=False)] | str | bool

LocalPath = Annotated[str, AfterValidator(local_path)]
"""A local path, which dgs reads or writes without Spark."""

SparkPath = Annotated[str, AfterValidator(place_of_spark)]
"""A path or an address that Spark reads or writes."""


def _written(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Duration = Annotated[
    int,
    BeforeValidator(lambda value: 0 if str(value) == "0" else parse_duration(value)),
    PlainSerializer(lambda value: shown(value, NANOSECONDS), return_type=str),
    _written(r"^[0-9]+(\.[0-9]+)? ?(ns|us|ms|s|m|h|d)$", "10ms"),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(lambda value: shown(value, BYTES), return_type=str),
    _written(r"^[0-9]+(\.[0-9]+)? ?([KMG]i?)?B$", "256MiB"),
]
Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(lambda value: f"{value!r}/s", return_type=str),
    _written(r"^[0-9.]+ ?[kKM]? ?/ ?(ms|s|m|h|d)$", "3/h"),
]

Umask = Annotated[
    str,
    BeforeValidator(lambda value: f"{value:03d}" if type(value) is int else value),
    Field(pattern=r"^0[0-7][2367]$"),
]
"""A mask of file modes in octal: the owner is never shut out, others may never write."""


Pace = Annotated[
    float,
    BeforeValidator(parse_pace),
    PlainSerializer(lambda value: f"{value!r}/s", return_type=str),
    _written(r"^[0-9.]+ ?[kKM]? ?/ ?(ms|s|m|h|d)$", "100k/s"),
]


class Section(BaseModel):
    """A section of plan.yaml: immutable, no unknown keys. Its repr shows no values of environment variables."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr__(self) -> str:
        return masked(super().__repr__())

    def __str__(self) -> str:
        return masked(super().__str__())


class Choice(Section):
    """A section of which exactly one key is given: its kind."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"minProperties": 1, "maxProperties": 1}
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"exactly one of {', '.join(type(self).model_fields)} is needed, got {', '.join(given) or 'none'}"
            )
        return self

    @property
    def kind(self) -> str:
        """The given key, such as `csv`."""
        return next(name for name, value in vars(self).items() if value is not None)

    @property
    def details(self) -> Any:
        """The section of that key."""
        return getattr(self, self.kind)
