"""Settings and fixtures of all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("dgs", deadline=None)  # machines are shared and noisy: no test may depend on timing
settings.load_profile("dgs")
