"""`dgs schema`: prints the JSON Schema of plan.yaml, for editors."""

from __future__ import annotations

import json

from dgs.cli.options import AsJson, Debug
from dgs.cli.reporting import reporting


def schema(as_json: AsJson = False, debug: Debug = False) -> None:
    """Print the JSON Schema of plan.yaml."""
    with reporting(as_json=as_json, debug=debug):
        from dgs.job.schema import json_schema

        print(json.dumps(json_schema(), indent=None if as_json else 2))
