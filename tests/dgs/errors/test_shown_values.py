"""Values of users in errors: whatever their reprs do, the error is about what is wrong."""

import pytest

import dgs
from dgs.errors import DgsError, InternalError

VALUE = dgs.kind("value")
HUGE = 10**5000
"""Python writes no integer of so many digits."""


class Unshown:
    def __repr__(self):
        raise RuntimeError


class Raises(dgs.Program):
    kinds = (VALUE,)

    def init(self):
        return 0

    def update(self, state, event, emit):
        raise ValueError("why")


@pytest.mark.parametrize("value", [HUGE, Unshown()], ids=["huge", "unshown"])
@pytest.mark.parametrize(
    ("items", "said"),
    [
        (lambda value: [(VALUE(), 1, [value])], "raised ValueError: why"),
        (lambda value: [(value,)], "is not an event"),
        (lambda value: [{"ts": value, "a": [1]}], "is no column"),
        (lambda value: value, "has no items"),
        (lambda value: [(VALUE(), 1, 1), (VALUE(value), 2, 1)], "takes no key"),
    ],
    ids=["payload", "item", "column", "stream", "key"],
)
def test_error_says_what_is_wrong_with_a_value_that_has_no_repr(value, items, said):
    with pytest.raises(DgsError, match=said) as caught:
        dgs.run(Raises(), streams={"s": items(value)}, runtime="local")
    assert not isinstance(caught.value, InternalError)
