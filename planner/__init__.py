"""From a dependence relation and streams to a valid synchronization plan (Section 3)."""
