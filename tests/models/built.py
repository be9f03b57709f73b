"""Every model of ``models/``, found by its YAML file and built small, for tests of all of them."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

import models
from bench.training.seeding import seed_generators
from ground.errors import UserError
from models.specification import SequenceSpecification
from settings.external import load_class

FOLDER = Path(models.__file__).parent
GUESTS = os.environ.get("MODEL", "").split()  # package.Class: it has no file and no card
NAMES = [*sorted(path.stem for path in FOLDER.glob("*.yaml")), *GUESTS]
SPECIFICATIONS = {
    "tokens": SequenceSpecification(maximum_length=64, vocabulary=11),
    "channels": SequenceSpecification(maximum_length=64, input_channels=6, output_channels=6),
}
CHANNELS_ALONE = {"memory_unit"}  # without an embedding for tokens
SMALL = {"width": 32, "layers": 2, "heads": 2}


@cache
def configuration(name: str) -> dict[str, Any]:
    if name in GUESTS:
        _, *parameters = inspect.signature(load_class(name)).parameters.values()
        missing = [p.name for p in parameters if p.default is p.empty]
        if missing:
            raise UserError(
                f"these tests build MODEL={name} by the defaults of its constructor, and "
                f"{', '.join(missing)} has none: give it one, or name a class derived from it "
                "that gives the value"
            )
        return {"_target_": name, "card": {}} | {p.name: p.default for p in parameters}
    loaded = OmegaConf.to_container(OmegaConf.load(FOLDER / f"{name}.yaml"))
    assert isinstance(loaded, dict)
    return {str(key): value for key, value in loaded.items()}


def hyperparameters(name: str) -> dict[str, Any]:
    return {k: v for k, v in configuration(name).items() if k not in ("_target_", "card")}


def constructor(name: str) -> Callable[..., nn.Module]:
    module, _, attribute = configuration(name)["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def small_model(name: str, kind: str, seed: int = 0) -> nn.Module:
    """A small model; a ValueError if it refuses this kind of sequence.

    The small number of heads need not fit where the task sets the width; then its own does.
    """
    own = hyperparameters(name)
    small = {key: SMALL.get(key, value) for key, value in own.items()}
    seed_generators(seed, torch.device("cpu"))
    try:
        return constructor(name)(SPECIFICATIONS[kind], **small)
    except ValueError:
        if "heads" not in own:
            raise
        seed_generators(seed, torch.device("cpu"))
        return constructor(name)(SPECIFICATIONS[kind], **small | {"heads": own["heads"]})


def model_or_skip(name: str, kind: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """A small model in eval mode; most tests need float64 to tell rounding from mistakes."""
    try:
        return small_model(name, kind, seed).to(dtype).eval()
    except ValueError as refusal:
        pytest.skip(f"{name} does not take {kind}: {refusal}")


def sequences(
    kind: str, batch: int, length: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "tokens":
        return torch.randint(0, 11, (batch, length), generator=generator)
    return torch.randn(batch, length, 6, generator=generator, dtype=torch.float64).to(dtype)
