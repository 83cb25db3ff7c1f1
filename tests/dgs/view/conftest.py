import pytest

from tests.dgs.view.browsing import browser


@pytest.fixture(scope="session")
def visit():
    """A function that opens an address in a browser, as a `Visit`."""
    with browser() as opened:
        yield opened
