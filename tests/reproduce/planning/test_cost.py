"""What estimates of the cost are made of."""

import json
import re
from itertools import chain
from statistics import median

import pytest

from bench.records.schema import read_records
from bench.records.store import COMMITTED
from reproduce.planning.cost import BY_RATE, GPU_RATE
from tests.conftest import ROOT


def test_gpu_hours_are_by_a_rate_that_was_measured() -> None:
    file = json.loads((ROOT / "docs" / "measurements" / "regbench_h200_trials.json").read_text())
    (at_once,) = re.findall(r"workers=(\d+)", file["command"])
    runs = {
        (r.model, r.config["tasks"]["training_automata"]): r.cost.training_flops
        for r in read_records([COMMITTED / "regbench" / "laptop"])
        if r.role == "final" and r.config["training"]["steps"] == 800
    }
    measured = [(t["model"], t["training_automata"], t["seconds"]) for t in file["trials"]]
    of_model: dict[str, list[float]] = {}
    for model, size, seconds in measured:
        if flops := runs.get((model, size)):
            of_model.setdefault(model, []).append(int(at_once) * flops / seconds)
    assert len(of_model) == 6
    assert median(chain(*of_model.values())) == pytest.approx(GPU_RATE, rel=0.02)
    for rates in of_model.values():
        assert GPU_RATE / BY_RATE < median(rates) < GPU_RATE * BY_RATE
