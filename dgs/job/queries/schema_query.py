"""The schema of `program: {query: ...}` in plan.yaml, and of the weights of the rows that a query reads.

>>> AnswerConfig.model_validate({"stream": "answers"}).stream
'answers'
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dgs.job.schema_base import Count, Flag, LocalPath, Scalar, Section
from dgs.job.schema_sources import Period

Parameter = Scalar | list[Scalar] | None
"""A value that is bound to a parameter of a query."""


class AnswerConfig(Section):
    """When a query is answered: at multiples of a time (`every`), at every event of a `stream`, or after so many `rows`."""

    every: Period | None = None
    stream: str | None = None
    rows: Count | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one(self) -> AnswerConfig:
        if [self.every, self.stream, self.rows].count(None) != 2:  # noqa: PLR2004 - all but one
            raise PydanticCustomError("choice", "give `every:`, `stream:` or `rows:`, or write `answer: end`")
        return self


class QueryConfig(Section):
    """A query in place of a program: its text, or the file with it. `lang`: by default that of the file's extension, else sql.

    `params`: the values of its parameters. `answer`: when it is answered, by default once, behind all rows. `output`: all rows of
    an answer, or its changes against the one before. `on_negative`: what to do with more deletions of a row than insertions. `require`: the worst class of state to accept. `rules`: your own rewriting rules.
    `exact`: sums of floats are rounded once, at an answer.
    """

    file: LocalPath | None = None
    text: str | None = None
    lang: Literal["sql", "mrql", "pig"] | None = None
    params: dict[str, Parameter] = {}
    answer: AnswerConfig | Literal["end"] = "end"
    output: Literal["snapshot", "changes"] = "snapshot"
    on_negative: Literal["error", "drop"] = "error"
    require: Literal["A", "B", "C"] | None = None
    rules: list[str] = []
    exact: Flag = False

    @model_validator(mode="after")
    def _one_text(self) -> QueryConfig:
        if (self.file is None) == (self.text is None):
            raise PydanticCustomError("choice", "give the query as `text:`, or the `file:` that has it")
        return self


class WeightConfig(Section):
    """The column that says whether a row is inserted or deleted, and by which values."""

    column: str
    insert: Scalar = 1
    delete: Scalar = -1
