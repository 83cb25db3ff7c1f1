"""The choice of cases for `make test`: the first of many. `make test-all` runs them all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

MANY = int(os.environ.get("CASES", "2_000"))
"""The random cases of each property under `make test-all`."""

EXPLORES = settings.get_current_profile_name() == "exploring"
FIRST = random.randrange(10**6, 10**9) if EXPLORES else 1000
"""The first seed of these cases. It differs between runs of `make test-all`."""


def seeds(few: int, *, share: int = 1) -> pytest.MarkDecorator:
    """Give a property `seeds`: the first few in the quick test, `MANY` or a share of them in the slow test."""
    many = pytest.param(range(FIRST, FIRST + MANY // share), marks=pytest.mark.slow, id="many")
    return pytest.mark.parametrize("seeds", [pytest.param(range(few), id="few"), many])


def rest_is_slow(
    cases: Iterable[Any], *, keep: int = 1, marks: tuple[pytest.MarkDecorator, ...] = ()
) -> list[Any]:
    """Return cases for `parametrize`, of which those after the first `keep` are marked slow. A tuple is one set of arguments."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=marks if number < keep else (*marks, pytest.mark.slow),
        )
        for number, case in enumerate(cases)
    ]


def every_other(cases: Iterable[Any]) -> list[Any]:
    """Return cases for `parametrize`, of which every second one is marked slow. Those with marks of their own keep them."""
    return [
        pytest.param(case, marks=pytest.mark.slow) if number % 2 and not hasattr(case, "marks") else case
        for number, case in enumerate(cases)
    ]
