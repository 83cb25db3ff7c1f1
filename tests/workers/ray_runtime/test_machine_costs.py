"""The costs of the machine: those of our code are scaled by the time of a synchronisation, and then the model explains the measured job."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from dgs.planner.prediction.costs import TYPICAL
from dgs.workers.ray_runtime import machine_costs as module
from dgs.workers.ray_runtime.machine_costs import SCALED, machine_costs


def test_cost_of_synchronising_scales_only_the_work_of_our_code():
    found = machine_costs()
    factor = found.synchronisation / TYPICAL.synchronisation
    assert factor > 0
    assert 0 < found.byte < 1e-6  # by itself: a byte of new memory
    for name, typical in replace(TYPICAL, byte=found.byte).as_data().items():
        is_ours = name in SCALED
        assert getattr(found, name) == (pytest.approx(factor * typical) if is_ours else typical)


def test_a_slower_machine_has_greater_costs(monkeypatch):
    class Slow(module.Counting):
        def join(self, left, right):
            end = time.thread_time() + 8e-3
            while time.thread_time() < end:
                pass
            return left + right

    monkeypatch.setattr(module, "SHORT", 5)
    monkeypatch.setattr(module, "LONG", 20)
    monkeypatch.setattr(module, "Counting", Slow)
    found = machine_costs()
    assert found.synchronisation + found.piece > 0.5e-3


def test_waiting_for_other_processes_makes_a_machine_no_slower(monkeypatch):
    class Waiting(module.Counting):
        def join(self, left, right):
            time.sleep(5e-3)
            return left + right

    monkeypatch.setattr(module, "SHORT", 5)
    monkeypatch.setattr(module, "LONG", 20)
    monkeypatch.setattr(module, "Counting", Waiting)
    found = machine_costs()
    assert found.synchronisation + found.piece < 1e-3
