"""To be written: what this folder is, and in which order to read it."""
