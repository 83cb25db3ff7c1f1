"""`python -m dgs`: the command line."""

from dgs.cli import process

if __name__ == "__main__":
    process()
