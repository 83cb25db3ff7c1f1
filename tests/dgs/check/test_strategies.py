"""Payloads of a type: tame values for common type hints, and an error with advice for the others."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict

import annotated_types
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dgs
from dgs.check.drawing.strategies import simplest, strategy_for
from dgs.errors import UsageError


class Side(Enum):
    BUY = 1
    SELL = 2


@dataclasses.dataclass
class Tree:
    value: float
    kids: list[Tree]
    parent: Optional[Tree] = None  # noqa: UP045 - as people write it
    depth: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Positive:
    amount: int

    def __post_init__(self):
        if self.amount <= 0:
            raise ValueError("not positive")


class Order(NamedTuple):
    side: Side
    price: Decimal
    at: dt.datetime


class Hit(TypedDict, total=False):
    page: str


class Trip(pydantic.BaseModel):
    fare: float = pydantic.Field(ge=0, le=9)
    tip: Decimal | None = None


class HasAmount(Protocol):
    amount: int


UserId = NewType("UserId", int)
COUNT = Annotated[int, annotated_types.Ge(5)]
TYPES: list[tuple[Any, Any]] = [
    (Tree, lambda one: abs(one.value) < float("inf") and one.depth == 0),
    (Positive, lambda one: one.amount > 0),
    (Order, lambda one: one.price.is_finite() and one.at.year == 2024),
    (Hit, lambda one: set(one) <= {"page"}),
    (Trip, lambda one: 0 <= one.fare <= 9 and (one.tip is None or one.tip.is_finite())),
    (UserId, lambda one: abs(one) <= 9),
    (COUNT, lambda one: one >= 5),
    (Annotated[int, "a note"], lambda one: abs(one) <= 9),
    (tuple[int, ...], lambda one: isinstance(one, tuple)),
    (set[str], lambda one: isinstance(one, set)),
    (Literal["a", "b"], lambda one: one in ("a", "b")),
    (dt.timedelta, lambda one: one < dt.timedelta(days=2)),
    ({1, 2}, lambda one: one in (1, 2)),
]


@pytest.mark.parametrize(("wanted", "is_tame"), TYPES, ids=[str(wanted) for wanted, _ in TYPES])
def test_payloads_of_a_type_are_tame(wanted, is_tame):
    @settings(max_examples=15, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy_for(wanted))
    def check(value):
        assert is_tame(value)

    check()


@pytest.mark.parametrize("wanted", [HasAmount, 5, [], "int"])
def test_hint_that_describes_no_payload_is_refused(wanted):
    with pytest.raises(UsageError, match=r"give|samples"):
        strategy_for(wanted)


def test_empty_strategy_is_refused():
    with pytest.raises(UsageError, match="no payload can be made"):
        simplest(st.integers().filter(lambda _: False))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategies": [1]}, "by kind"),
        ({"strategies": {"v": 5}}, "kind 'v'"),
        ({"keys": {"v": []}}, "list of keys"),
        ({"keys": {"v": "abc"}}, "list of keys"),
        ({"states_equal": 3}, "states_equal is a function"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    class Total(dgs.Program):
        kinds = (dgs.kind("v"),)

        def init(self):
            return 0

        def update(self, state, event: dgs.Event[int], emit):
            return state + event.payload

    with pytest.raises(UsageError, match=said):
        dgs.check(Total, max_examples=1, **options)
