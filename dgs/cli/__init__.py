"""The command line: one module per verb; heavy imports inside of them. `dgs.cli.app` lists the verbs.

Data goes to stdout, talk to stderr; nothing is ever asked. The exit codes are those of `dgs.errors`.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit."""
    from dgs.cli.app import app

    app(prog_name="dgs")
