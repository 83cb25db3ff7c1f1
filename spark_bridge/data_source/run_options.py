"""The options of `format("dgs")` for reading a run. Names of options are case-insensitive.

>>> Wanted.of({"run": "/runs/7", "what": "checkpoints", "epoch": "3"})
Wanted(run='/runs/7', what='checkpoints', epoch=3, per_trigger=None, epoch_column=None)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from dgs.errors import UsageError
from dgs.job.units import local_path

OUTPUTS, CHECKPOINTS = "outputs", "checkpoints"

PER_TRIGGER, EPOCH_COLUMN = "maxEpochsPerTrigger", "epochColumn"

GIVEN = ("run", "what", "epoch", EPOCH_COLUMN, PER_TRIGGER)
"""Options from users."""

SPARKS = ("path", "checkpointlocation")
"""Options from Spark; the path is that of `load(PATH)`."""

OF_TABLE, OWNER = "option.", "owner"
"""For a table of the catalog, Spark passes all its properties: every table has `owner`, and its options begin with `option.`."""


NOTE = "dgs"
"""The key of a column's metadata under which a table of the catalog keeps its options, see `noted`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The data to read: `outputs` or `checkpoints` (`what`) of a run.

    `epoch`: the last one to read, None for all that are committed. `per_trigger`: the most epochs of a micro-batch, None for no limit.
    `epoch_column`: the name of a column with the epoch of each output, which is added, None for no such column.
    """

    run: str
    what: str = OUTPUTS
    epoch: int | None = None
    per_trigger: int | None = None
    epoch_column: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Wanted:
        """Return the data that the options of a reader ask for. Raises UsageError."""
        given = {name.lower(): value for name, value in options.items()}
        of_table = {name.removeprefix(OF_TABLE): given[name] for name in given if name.startswith(OF_TABLE)}
        known = {name.lower() for name in (*GIVEN, *SPARKS)}
        unknown = sorted((of_table if is_of_table(options) else given).keys() - known)
        given = of_table | {name: given[name] for name in known & given.keys()}
        if unknown:
            raise _wrong(f"has no option {unknown[0]!r} for reading; there are {', '.join(GIVEN)}")
        if is_of_table(options) and "path" in given:  # the LOCATION of a table, in Hadoop's form
            given["path"] = re.sub("^file:/+", "/", given["path"])
        run, what = given.get("run", given.get("path")), given.get("what", OUTPUTS)
        if run is None:
            raise _wrong(
                'reads runs: give `.option("run", DIRECTORY)`; a table in Spark\'s catalog must be made without a list of columns'
            )
        if what not in (OUTPUTS, CHECKPOINTS):
            raise _wrong(f"reads `{OUTPUTS}` or `{CHECKPOINTS}` of a run, not {what!r}")
        column = given.get(EPOCH_COLUMN.lower())
        if column is not None and what == CHECKPOINTS:
            raise _wrong(f"adds `{EPOCH_COLUMN}` to outputs; checkpoints have the column `epoch` already")
        epoch, per_trigger = (_number(given, name) for name in ("epoch", PER_TRIGGER))
        try:
            return cls(str(Path(local_path(run)).absolute()), what, epoch, per_trigger, column)
        except ValueError as error:
            raise UsageError(message=f"option `run` of the data source `dgs`: {error}") from None

    @property
    def path(self) -> Path:
        """The directory of the run."""
        return Path(self.run)

    def options(self) -> dict[str, str]:
        """Return the options that ask for this."""
        values = (self.run, self.what, self.epoch, self.epoch_column, self.per_trigger)
        pairs = zip(GIVEN, values, strict=True)
        return {name.lower(): str(value) for name, value in pairs if value is not None}


def is_of_table(options: Mapping[str, str]) -> bool:
    """Return whether the options are the properties of a table in Spark's catalog."""
    return any(name.lower() == OWNER or name.lower().startswith(OF_TABLE) for name in options)


def noted(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns of a table with the options of `CREATE TABLE` in the metadata of the first one.

    Spark (4.3) asks a Python source with these options for columns, and does not give them to the reader of the table.
    """
    if not is_of_table(options):
        return schema
    first = StructField(
        schema[0].name,
        schema[0].dataType,
        schema[0].nullable,
        {NOTE: json.dumps(Wanted.of(options).options())},
    )
    return StructType([first, *schema.fields[1:]])


def with_noted(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a reader, and those that the columns of a table note. Options of one query win."""
    there = [field.metadata[NOTE] for field in schema if NOTE in (field.metadata or {})]
    found: dict[str, str] = json.loads(there[0]) if there else {}
    return found | {name.lower(): value for name, value in options.items()}


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise _wrong(f"takes a number from 1 on for `{name}`, not {text!r}")
    return int(text)


def _wrong(problem: str) -> UsageError:
    return UsageError(message=f"the data source `dgs` {problem}")
