"""What makes monoids, and programs of them, refuses arguments that make no sense with a sentence."""

import math

import pytest

import dgs
from dgs import monoids
from dgs.errors import ProgramError
from dgs.keyed import KeyedState
from dgs.monoids import SUM, AllOf, FieldOf, KeyedWindows, Latest, MapOf, Top, Windows

SIMPLE = ["Count", "Distinct", "Max", "Mean", "MeanExact", "Min", "Sum", "SumExact"]
VALUE = dgs.kind("value")
NO_NAMES = [(), [1], {}, math.nan, True, b"name"]
NO_MONOIDS = [None, 3, "sum", monoids.Sum, object, (), sum]
NO_KINDS = [VALUE, "value", None, 3, [3], (None,), {"value"}]


def refuses(make, *given, **named):
    with pytest.raises(ProgramError) as caught:
        make(*given, **named)
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "takes"),
    [
        (Top, "Top(count, *, by=)"),
        (lambda: Top(1, 2), "Top(count, *, by=)"),
        (lambda: Latest("ts"), "Latest(*, by=)"),
        (lambda: MapOf(key="a"), "MapOf(monoid, *, key=, value=)"),
        (FieldOf, "FieldOf(monoid, *names)"),
        (lambda: FieldOf(SUM, field="a"), "FieldOf(monoid, *names)"),
        (lambda: AllOf(SUM), "AllOf(**monoids)"),
        (lambda: Windows(SUM), "Windows()"),
    ],
)
def test_calls_with_other_arguments_are_refused(call, takes):
    assert f"it takes {takes}" in refuses(call)


@pytest.mark.parametrize("name", SIMPLE)
def test_monoids_without_settings_say_how_a_field_is_meant(name):
    assert f"FieldOf({name}(), 'field')" in refuses(getattr(monoids, name), "amount")
    refuses(getattr(monoids, name), field="amount")


@pytest.mark.parametrize("count", [0, -1, None, "2", 1.5, math.nan, True, [3]])
def test_a_number_that_is_none_cannot_be_kept(count):
    assert "give a whole number of at least 1" in refuses(Top, count)


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
def test_names_that_are_none_are_refused(name):
    for make in (
        lambda: Top(1, by=name), lambda: Latest(by=name), lambda: MapOf(SUM, key=name),
        lambda: MapOf(SUM, value=name), lambda: FieldOf(SUM, name),
    ):  # fmt: skip
        assert "takes names of fields" in refuses(make)


@pytest.mark.parametrize("none", NO_MONOIDS, ids=repr)
def test_what_is_no_monoid_is_refused(none):
    for make in (lambda: MapOf(none), lambda: FieldOf(none, "x"), lambda: AllOf(a=SUM, b=none)):
        assert "is made of monoids" in refuses(make)

    class Sums(Windows):
        monoid = none
        accumulates = (VALUE,)

    assert "monoid" in refuses(Sums)


@pytest.mark.parametrize("kinds", NO_KINDS, ids=repr)
@pytest.mark.parametrize(
    ("base", "name"),
    [(Windows, "closes"), (Windows, "accumulates"), (KeyedWindows, "closes"), (KeyedState, "changes"), (KeyedState, "reads")],
)  # fmt: skip
def test_what_is_no_tuple_of_kinds_is_refused(base, name, kinds):
    assert f"`{name}`" in refuses(lambda: type("Made", (base,), {name: kinds}))
