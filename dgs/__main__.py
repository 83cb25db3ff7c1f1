"""`python -m dgs`: the command line."""

from dgs.cli import main

if __name__ == "__main__":
    main()
