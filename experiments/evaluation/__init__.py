"""The evaluation of the paper, again: each figure and table is one command. Read `__main__` first."""
