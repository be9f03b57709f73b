"""Every model of ``models/``, found by its YAML file and built small, for tests of all of them."""

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import models
from bench.config.card_attributes import card_of_class
from bench.config.external import load_class
from bench.config.source_files import use_named
from bench.config.yaml_files import read_yaml
from bench.training.seeding import seed_generators
from core.errors import UserError
from models.specification import SequenceSpecification
from tests.models.derivatives import disturbed

FOLDER = Path(models.__file__).parent
# package.Class or ./net.py:Class, which have no YAML file
GUESTS = [use_named(name) for name in os.environ.get("MODEL", "").split()]
NAMES = [*sorted(path.stem for path in FOLDER.glob("*.yaml")), *GUESTS]
SPECIFICATIONS = {
    "tokens": SequenceSpecification(maximum_length=64, vocabulary=11),
    "channels": SequenceSpecification(maximum_length=64, input_channels=6, output_channels=6),
}
# Without an embedding for tokens.
CHANNELS_ALONE = {
    "memory_unit",
    "memory_unit_fixed",
    *(path.stem for path in FOLDER.glob("cogscale_*.yaml")),
}
# Sums between inputs and outputs, forwards and backwards: in two blocks widths, four times those in
# the MLPs, up to 64 positions and the batch. A model of more steps, or one whose exponentials and
# quotients stretch errors, has 1000 times that room; a mistake is still a billion times larger.
NETWORK = {"terms": 1000, "condition": 1000.0}
SMALL = {"width": 32, "layers": 2, "heads": 2}


@cache
def configuration(name: str) -> dict[str, Any]:
    if name in GUESTS:
        card = card_of_class(load_class(name), name)
        _, *parameters = inspect.signature(load_class(name)).parameters.values()
        parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        defaults |= card.get("defaults", {})
        missing = [p.name for p in parameters if p.name not in defaults]
        if missing:
            raise UserError(
                f"these tests build MODEL={name} by the defaults of its constructor, and "
                f"{', '.join(missing)} has none: give it one, or name a class derived from it "
                "that gives the value"
            )
        return {"_target_": name, "card": card} | defaults
    content: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    return content


def hyperparameters(name: str) -> dict[str, Any]:
    return {k: v for k, v in configuration(name).items() if k not in ("_target_", "card")}


def constructor(name: str) -> Callable[..., nn.Module]:
    return load_class(configuration(name)["_target_"])


@cache
def one_of_each_class() -> list[str]:
    """The first YAML file of each class, for tests of the engine, to which the others are the same
    model; ``nox -s every_model`` runs them with every file."""
    if os.environ.get("MEMORY_BENCH_EVERY_MODEL"):
        return NAMES
    by_class: dict[str, str] = {}
    for name in NAMES:
        by_class.setdefault(configuration(name)["_target_"], name)
    return list(by_class.values())


def small_model(name: str, kind: str, seed: int = 0) -> nn.Module:
    """A small model; a ValueError if it refuses this kind of sequence.

    The small number of heads need not fit where the task sets the width; then its own does. What
    sizes a model of somebody else takes is not known here: of it the defaults are tried last, and
    any exception is a refusal.
    """
    own = hyperparameters(name)
    small = {key: SMALL.get(key, value) for key, value in own.items()}
    attempts = [small]
    if "heads" in own:
        attempts.append(small | {"heads": own["heads"]})
    if name in GUESTS:
        if kind not in configuration(name)["card"].get("sequences", SPECIFICATIONS):
            raise ValueError(f"its attribute sequences does not name {kind}")
        attempts.append(own)
    refusals: type[Exception] = Exception if name in GUESTS else ValueError
    for number, settings in enumerate(attempts, 1):
        seed_generators(seed, torch.device("cpu"))
        try:
            model = constructor(name)(SPECIFICATIONS[kind], **settings)
            if name in GUESTS:  # it may find only here that it has no table for such inputs
                with torch.no_grad():
                    model.eval()(sequences(kind, 2, 5, dtype=torch.float32))
            return model.train()
        except refusals as refusal:
            if number == len(attempts):
                if isinstance(refusal, ValueError):
                    raise
                raise ValueError(f"{type(refusal).__name__}: {refusal}") from refusal
    raise AssertionError  # there is at least one attempt


def names_with_kinds() -> list[tuple[str, str]]:
    """The first YAML file of each class with every kind of sequence, the others of a class with
    one: a class reads tokens as it does with its other arguments."""
    both = {*one_of_each_class(), *GUESTS}
    cases = ((name, SPECIFICATIONS if name in both else [one_kind(name)]) for name in NAMES)
    return [(name, kind) for name, kinds in cases for kind in kinds]


def names_with_one_kind(names: Iterable[str]) -> list[tuple[str, str]]:
    """For tests of what does not depend on how a model reads its inputs."""
    every = os.environ.get("MEMORY_BENCH_EVERY_MODEL")
    cases = ((n, SPECIFICATIONS if every or n in GUESTS else [one_kind(n)]) for n in names)
    return [(name, kind) for name, kinds in cases for kind in kinds]


@cache
def one_kind(name: str) -> str:
    """Real channels, examined in float64, and tokens where a model refuses them."""
    return "channels" if takes(name, "channels") else "tokens"


def takes(name: str, kind: str) -> bool:
    """Whether the model can be built small for this kind of sequence."""
    try:
        small_model(name, kind)
    except ValueError:
        return False
    return True


def model_or_skip(name: str, kind: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """A small model in eval mode; most tests need float64 to tell rounding from mistakes. A model
    of somebody else, which need not work in float64, is in float32 where it does not."""
    try:
        model = small_model(name, kind, seed)
    except ValueError as refusal:
        pytest.skip(f"{name} does not take {kind}: {refusal}")
    if name in GUESTS and dtype == torch.float64 and not precision_of(name, kind).takes_float64:
        model.register_forward_pre_hook(_in_float32)
        return model.eval()
    return model.to(dtype).eval()


def trained_or_skip(name: str, kind: str, size: float) -> Any:
    """The same with no parameter at its initial value."""
    model = model_or_skip(name, kind)
    dtype = next(model.parameters()).dtype
    return disturbed(model, size).to(dtype)


def _in_float32(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(one.float() if one.is_floating_point() else one for one in inputs)


@dataclass(frozen=True)
class Precision:
    """In which type a model of somebody else computes.

    Attributes:
        takes_float64: whether it runs in it.
        coarsest: the type of the fewest digits that a number has on the way.
    """

    takes_float64: bool
    coarsest: torch.dtype


class _Watched(TorchDispatchMode):
    """The floating-point type of the fewest digits that any operation gives."""

    coarsest = torch.float64

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.is_floating_point():
                self.coarsest = max(self.coarsest, leaf.dtype, key=lambda d: torch.finfo(d).eps)
        return result


@cache
def precision_of(name: str, kind: str) -> Precision:
    """What a model of somebody else computes in when it is asked for float64."""
    model, inputs = small_model(name, kind).double().eval(), sequences(kind, 2, 9)
    try:
        with _Watched() as watched, torch.no_grad():
            outputs = model(inputs)
    except Exception:  # it mixes the types
        return Precision(False, torch.float32)
    takes = outputs.dtype == torch.float64
    return Precision(takes, watched.coarsest if takes else torch.float32)


def rounded(name: str, kind: str) -> dict[str, Any]:
    """How near two computations of a model have to be: options of ``assert_near``."""
    if name in GUESTS and (coarsest := precision_of(name, kind).coarsest) != torch.float64:
        return {"terms": 1000, "condition": 3.0, "dtype": coarsest}
    return NETWORK


def in_steps(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]], inputs: Tensor, state: Any = None
) -> tuple[Tensor, Any]:
    """Outputs (batch, time, ...) of one step after the other, without gradients; the last state."""
    outputs = []
    with torch.no_grad():
        for position in inputs.unbind(1):
            output, state = step(position, state)
            outputs.append(output)
    return torch.stack(outputs, 1), state


def sequences(
    kind: str, batch: int, length: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "tokens":
        return torch.randint(0, 11, (batch, length), generator=generator)
    return torch.randn(batch, length, 6, generator=generator, dtype=torch.float64).to(dtype)
