"""Every memory of the folder, built small, and pairs to write: what the tests of all share."""

import copy
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import models.memories
from bench.config.yaml_files import read_yaml
from models.memories.interface import Memory, Reading
from tests.closeness import assert_near

FOLDER = Path(models.memories.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SMALL = {"bits": 2, "width": 24, "hidden": 24, "rank": 6, "steps": 256, "threshold": -0.5}
MORE: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    # settings beside the defaults, and what they change on the card
    "kernel": [({"kernel": "gaussian"}, {}), ({"growth": 4.48}, {})],
    "modern_hopfield": [({"updates": 0}, {})],
    "outer_product": [
        ({"scheme": scheme, "kept": 1.0}, {"state": "grows"})
        for scheme in ("seen", "threshold", "power", "gradient")
    ],
}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (name, settings, card) for name in NAMES for settings, card in [({}, {}), *MORE.get(name, [])]
]
KEYS, VALUES = 8, 7

on_every_memory = pytest.mark.parametrize("name", NAMES)
on_every_case = pytest.mark.parametrize(
    ("name", "settings", "card"),
    CASES,
    ids=["-".join([name, *map(str, settings.values())]) for name, settings, _ in CASES],
)


@cache
def configuration(name: str) -> dict[str, Any]:
    content: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    return content


def hyperparameters(name: str) -> dict[str, Any]:
    return {k: v for k, v in configuration(name).items() if k not in ("_target_", "card")}


def constructor(name: str) -> Callable[..., Memory]:
    module, _, attribute = configuration(name)["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def small(
    name: str,
    settings: dict[str, Any],
    dtype: torch.dtype = torch.float64,
    sizes: tuple[int, int] = (KEYS, VALUES),
    seed: int = 0,
) -> Memory:
    """A memory that is as it was built first: two of one kind are equal to the bit."""
    built, state = _built(name, tuple(settings.items()), dtype, sizes, seed)
    torch.set_rng_state(state)
    return copy.deepcopy(built)


@cache
def _built(
    name: str,
    settings: tuple[tuple[str, Any], ...],
    dtype: torch.dtype,
    sizes: tuple[int, int],
    seed: int,
) -> tuple[Memory, Tensor]:
    """The memory, and the state of the generator after it."""
    chosen = {key: SMALL.get(key, value) for key, value in hyperparameters(name).items()}
    torch.manual_seed(seed)
    built = constructor(name)(*sizes, **(chosen | dict(settings))).to(dtype)
    return built, torch.get_rng_state()


def promised(name: str, card: dict[str, Any], key: str) -> Any:
    return (configuration(name)["card"] | card).get(key)


def random_units(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return functional.normalize(drawn, dim=-1).to(dtype)


def pairs(*batch_and_items: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    return (
        random_units(*batch_and_items, KEYS, seed=1, dtype=dtype),
        random_units(*batch_and_items, VALUES, seed=2, dtype=dtype),
    )


def queries(*batch_and_queries: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return random_units(*batch_and_queries, KEYS, seed=3, dtype=dtype)


def assert_same(
    name: str, actual: Reading, expected: Reading, dtype: torch.dtype | None = None
) -> None:
    """Equal up to rounding: sums over the sizes, or 24 hidden numbers, and up to ten items.

    A kernel stretches errors by its bandwidth, an inverse by one over the ridge, and a training by
    every step.
    """
    own = hyperparameters(name)
    terms, condition = 30, max(20.0, own.get("beta", 0.0), 1 / own.get("ridge", 1.0))
    if "steps" in own:
        terms, condition = terms * SMALL["steps"], 1000.0
    for field, one, other in zip(Reading._fields, actual, expected, strict=True):
        assert_near(one, other, name=field, terms=terms, condition=condition, dtype=dtype)


def assert_identical(actual: Reading, expected: Reading) -> None:
    for field, one, other in zip(Reading._fields, actual, expected, strict=True):
        assert torch.equal(one, other), field
