"""Random classes on random batches: compiled equals interpreted, to the bit, also in exceptions."""

import pytest

from dgs.compiled.loop_files import machine_code
from tests.dgs.compiled.random_classes import differing_class


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("seeds", "translate"),
    [
        (range(100), None),
        pytest.param(range(100, 4000), None, marks=pytest.mark.slow),
        pytest.param(range(5000, 5100), machine_code, marks=pytest.mark.slow),
    ],
    ids=["some", "many", "machine code"],
)
def test_random_classes_equal_the_interpreter(seeds, translate):
    events = interpreted = 0
    for seed in seeds:
        is_wrong, text, update = differing_class(seed, *([translate] if translate else []))
        assert not is_wrong, f"seed {seed}:\n{text}"
        events += update.events
        interpreted += update.interpreted
    assert events > interpreted  # otherwise the interpreter would be compared with itself
