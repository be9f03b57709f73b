"""What came of each part, and how the numbers are read from what its command wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from core.files import write_atomically

Outcome = Literal["done", "failed", "over its limit", "left", "skipped"]
SETTLED = ("done", "skipped")  # not tried again


@dataclass(frozen=True)
class Result:
    """What came of a part.

    Attributes:
        scale: the factor of its sizes.
        reason: why it is not done; empty where it is.
        seconds: that it took.
        limit: seconds that it might have taken.
        numbers: what it measured, as ``read`` of the part gives it.
    """

    name: str
    title: str
    device: str
    scale: float
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    limit: float = 0.0
    command: str = ""
    started_at: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """As ``NAME.json`` in a folder."""
        content = json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / f"{self.name}.json", content.encode())


def read_results(folder: Path) -> dict[str, Result]:
    """Part -> what came of it in earlier calls."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_bytes())
        results[content["name"]] = Result(**content)
    return results


def read_speed(path: Path) -> dict[str, Any]:
    """What bench.speed wrote, of each model: the time of a training pass and tokens a second, both
    against the reference, and the share of the measured rate of a large product."""
    measured = json.loads(path.read_bytes())
    rate = measured["product_flops_per_second"]
    numbers: dict[str, Any] = {"device": measured["device"], "product_flops_per_second": rate}
    for row in measured["models"]:
        training = row["training"]
        numbers[row["model"]] = {
            "milliseconds": 1000 * training["median_seconds"],
            "tokens_per_second": training["tokens_per_second"],
            "time_against_reference": training["time_against_reference"],
            "share_of_rate": row["flops"] / training["median_seconds"] / rate,
        }
    return numbers


def read_launches(path: Path) -> dict[str, Any]:
    """What bench.speed counted: model -> launches of a training pass."""
    rows = json.loads(path.read_bytes())["models"]
    keys = ("operators", "views", "kernels")
    launches_by_model = {}
    for row in rows:
        launches_by_model[row["model"]] = {key: row["launches"][key] for key in keys}
    return launches_by_model


def read_stack(path: Path) -> dict[str, Any]:
    """What bench.training_speed wrote: how many times faster trainings are as one computation."""
    measured = json.loads(path.read_bytes())
    keys = ("model", "together", "factor", "quartiles", "alone_seconds", "device")
    return {key: measured[key] for key in keys}


def read_whole(path: Path) -> dict[str, Any]:
    """All that a command of bench.gpu wrote."""
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content
