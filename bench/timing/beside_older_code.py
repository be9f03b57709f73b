"""Training passes of this checkout beside those of another one, in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench.config.groups import choices
from bench.records.provenance import processor
from bench.timing import one_tree
from bench.timing.settings import Keep, SpeedSettings
from bench.timing.steps import SHORTEST
from bench.timing.tables import SHAPES
from core.errors import RUN_FAILED, UserError, nearest
from core.files import ROOT
from core.progress import Report

WARM_UP = 2  # passes of each process that do not count


def compare(settings: SpeedSettings, report: Report, keep: Keep) -> dict[str, Any]:
    """Seconds of a pass in both checkouts, by model: at the first length, vocabulary and dropout,
    on a CPU. The ratio is the median of those within a round, with its quartiles.

    Raises:
        UserError: no checkout, an unknown model, or a pass that fails.
    """
    before = settings.before
    if before is None or not (before / "models").is_dir():
        raise UserError(f"before={before} is no checkout of this project: it has no models/")
    for name in settings.models:
        if name not in choices("models"):
            raise UserError(f"there is no model '{name}': {nearest(name, choices('models'))}")
    names = settings.models or [settings.reference]
    described = settings.model_dump(mode="json", exclude={"output", "before"})
    rows: dict[str, Any] = {}
    measurement = {"settings": described, "device": processor(), "beside_older_code": rows}
    for number, name in enumerate(names):
        rows[name] = _one_model(settings, name, before)
        keep(measurement)
        report("models beside their older code", number + 1, len(names))
    return measurement


def _one_model(settings: SpeedSettings, name: str, before: Path) -> dict[str, Any]:
    """Times of a model in both checkouts, which take turns, each the first in every second
    round."""
    seconds: dict[str, list[float]] = {"before": [], "here": []}
    answers: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        trees = {"before": before, "here": ROOT}
        processes = {
            tree: stack.enter_context(_Passes(settings, name, root)) for tree, root in trees.items()
        }
        for tree, process in processes.items():
            answers[tree] = process.answer()
        for number in range(WARM_UP + settings.rounds):
            order = list(processes) if number % 2 else list(processes)[::-1]
            for tree in order:
                answer = processes[tree].next_pass()
                answers[tree]["peak"] = answer["peak"]
                if number >= WARM_UP:
                    seconds[tree].append(max(answer["seconds"], SHORTEST))
    ratios = [h / b for h, b in zip(seconds["here"], seconds["before"], strict=True)]
    old, new = answers["before"], answers["here"]
    norms = zip(new["gradients"], old["gradients"], strict=True)
    return {
        "ratio": statistics.median(ratios),
        "ratio_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        "median_seconds": {tree: statistics.median(of_tree) for tree, of_tree in seconds.items()},
        "seconds": seconds,
        "operator_calls": {tree: answer["calls"] for tree, answer in answers.items()},
        "peak_kib": {tree: answer["peak"] for tree, answer in answers.items()},
        "loss_difference": abs(new["loss"] - old["loss"]) / abs(old["loss"]),
        "gradient_difference": max(abs(n - o) / max(n, o, SHORTEST) for n, o in norms),
    }


class _Passes:
    """A process that makes passes of one checkout, each when it is asked for."""

    def __init__(self, settings: SpeedSettings, name: str, root: Path) -> None:
        shapes = {key: getattr(settings, key) for key in SHAPES}
        request = {
            "model": name,
            "shapes": {**shapes, "dropout": settings.dropout[0]},
            "length": settings.length[0],
            "vocabulary": settings.vocabulary[0],
            "batch": settings.batch,
            "seed": settings.seed,
            "threads": settings.threads,
        }
        self.root = root
        self.process = subprocess.Popen(
            # -P: the folder of the script, which is of this checkout, is no place for imports.
            [sys.executable, "-P", one_tree.__file__, json.dumps(request)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Passes:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def next_pass(self) -> dict[str, Any]:
        """Seconds of one pass, and the most memory so far."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise UserError(f"a training pass failed in {self.root}; it says why above", RUN_FAILED)
        content: dict[str, Any] = json.loads(line)
        return content
