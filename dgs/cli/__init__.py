"""The command line: one module per verb, with heavy imports inside functions. Read in this order.

- `app`: all verbs. `run`: the first verb to read. `finishing`: the common part of run and resume.
- `reporting`: messages and exit codes. `options`: shared flags. `show_config`: a flag of run. Other modules are verbs.

Data goes to stdout and messages to stderr. No verb asks the user anything. `dgs.errors` has the exit codes.
"""

from __future__ import annotations

from dgs.cli.stopping import stopped_by_signals, stopped_early


def main() -> None:
    """Run the command line and exit; signals count from the first moment, also while the verbs are imported."""
    try:
        with stopped_by_signals():
            from dgs.cli.app import app

            app(prog_name="dgs")
    except KeyboardInterrupt as error:
        raise stopped_early(error) from None
