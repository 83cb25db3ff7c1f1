"""The fixture of tests that need llvmlite."""

import pytest


@pytest.fixture
def machine(monkeypatch, tmp_path_factory):
    """The translator of loops to machine code. Tests that use it are skipped where llvmlite is not installed."""
    pytest.importorskip("llvmlite", reason="llvmlite is not installed: pip install 'dgs[compiled]'")
    from dgs.compiled.loop_files import machine_code

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return machine_code
