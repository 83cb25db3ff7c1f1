"""Places in the total order: items that a step emits at the end of a block have none, so a merge of them has no order."""

import pytest

import dgs
from dgs.flow import FlowError, flow


def test_keys_given_after_a_fold_are_no_places() -> None:
    @flow()
    def twice(numbers: int):
        totals = numbers.fold(lambda total, number: total + number, 0).key_by(lambda _, total: total % 2)
        return totals.merge(totals.map(lambda _, total: total + 1))

    assert twice.types().endswith("merge   U(Any, Any)")


def test_a_program_whose_events_depend_on_each_other_takes_no_items_of_a_fold() -> None:
    class Last(dgs.Program):
        def init(self):
            return None

        def update(self, state, event, emit):
            return event.payload

    @flow()
    def last(numbers: int):
        totals = numbers.fold(lambda total, number: total + number, 0).key_by(lambda _, total: total)
        return totals.into(Last(), tag=lambda _, total: dgs.Tag("total"))

    with pytest.raises(FlowError) as caught:
        last.types()
    assert caught.value.codes == ["F02"]
