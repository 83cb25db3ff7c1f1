"""Data frames in and out: streams made of them (`dgs.stream`), and outputs as tables."""
