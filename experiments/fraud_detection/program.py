"""Fraud detection: a model judges transactions, and every rule retrains it (Section 4.1, simplified as there).

A transaction is fraudulent if it equals the model modulo 1000; then it is an output. A rule outputs the aggregate of the
transactions since the last rule, and the model becomes the sum of that aggregate and the rule. So transactions read the
model and add to the aggregate, and may run in parallel; a rule needs the whole aggregate and changes the model for all.

In `FraudDetection` the aggregate does not depend on the model. In `CyclicFraudDetection` it does: only good transactions
are added, so neither can be computed before the other.

>>> from dgs import Event
>>> program, outputs = FraudDetection(), []
>>> state = program.init()
>>> for tag, payload in [(TRANSACTION(), 40), (RULE(), 2), (TRANSACTION(), 1042), (RULE(), 0)]:
...     state = program.update(state, Event(tag, "bank", 0, payload), outputs.append)
>>> outputs, state                                       # aggregate, fraud, aggregate
([40, 1042, 1042], (1042, 0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dgs
from dgs.model import columns
from dgs.monoids import SUM
from dgs.vectorised import by_kind, one_by_one

TRANSACTION = dgs.kind("transaction")
RULE = dgs.kind("rule")
MODULUS = 1000

State = tuple[int | None, int]
"""The model, and the aggregate since the last rule. A model of None marks a part of the state that gets no events."""


def fraudulent(amounts: columns.Column, model: int | None) -> columns.Indices:
    """Return the rows of the amounts that equal the model modulo 1000."""
    numbers = columns.numbers(amounts)
    multiples = numbers // MODULUS  # not `%`: NumPy divides by a constant much faster
    multiples *= MODULUS
    remainders = np.subtract(numbers, multiples, out=multiples)
    rows: columns.Indices = (remainders == model % MODULUS).nonzero()[0]
    return rows


class FraudDetection(dgs.Program):
    """Emits the aggregate at every rule, and every fraudulent transaction."""

    depends = dgs.Dependence((RULE, RULE, dgs.ALWAYS), (RULE, TRANSACTION, dgs.ALWAYS))

    def init(self) -> State:
        """Return model 0 and aggregate 0."""
        return 0, 0

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Judge and add a transaction, or retrain the model."""
        model, aggregate = state
        amount = event.payload
        if event.tag.kind == TRANSACTION:
            if (amount - model) % MODULUS == 0:
                emit(amount)
            return model, aggregate + amount
        emit(aggregate)
        return aggregate + amount, 0

    def update_batch(self, state: State, batch: dgs.EventBatch, emit_batch: Callable[..., None]) -> State:
        """Judge and add all the transactions between two rules at once."""
        for kind, run, emit in by_kind(batch, emit_batch):
            if kind == TRANSACTION:
                model, aggregate = state
                frauds = fraudulent(run.payload, model)
                emit(columns.take(run.payload, frauds), frauds)
                state = model, aggregate + self.added(run.payload, frauds)
            else:
                state = one_by_one(self.update, state, run, emit)
        return state

    def added(self, amounts: columns.Column, frauds: columns.Indices) -> int:  # noqa: ARG002 - the variant needs it
        """Return the amount that a batch adds to the aggregate: all transactions."""
        return SUM.fold(amounts)

    def fork(self, state: State, left: dgs.TagSet, right: dgs.TagSet) -> tuple[State, State]:  # noqa: ARG002 - the contract
        """Copy the model to both sides and leave the aggregate on the left.

        A side with rules excludes every event on the other side. If that is the right side it takes the whole state, because its
        rules need the aggregate, and the model on the left would be out of date at the join.
        """
        if RULE in right:
            return (None, 0), state
        model, _ = state
        return state, (model, 0)

    def join(self, left: State, right: State) -> State:
        """Add the aggregates, and keep the model of the left side if it has one."""
        model = right[0] if left[0] is None else left[0]
        return model, left[1] + right[1]


class CyclicFraudDetection(FraudDetection):
    """Fraud detection without fraudulent transactions in the aggregate: aggregate and model depend on each other."""

    def update(self, state: State, event: dgs.Event, emit: Callable[[Any], None]) -> State:
        """Judge a transaction and add it if it is good, or retrain the model."""
        model, aggregate = state
        amount = event.payload
        if event.tag.kind == TRANSACTION:
            if (amount - model) % MODULUS == 0:
                emit(amount)
                return state
            return model, aggregate + amount
        emit(aggregate)
        return aggregate + amount, 0

    def added(self, amounts: columns.Column, frauds: columns.Indices) -> int:
        """Return the amount that a batch adds to the aggregate: the good transactions."""
        return super().added(amounts, frauds) - SUM.fold(columns.take(amounts, frauds))
