"""The worker protocol as pure state machines, and the runtimes that drive them."""
