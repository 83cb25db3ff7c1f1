"""Data frames of any library as streams: `dgs.stream`, and the columns of what Arrow takes as a table."""
