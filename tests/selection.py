"""The choice of cases for `make test`: the first of many, while `make test-all` runs them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


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
