"""What is known of a model from its construction: arguments, parameters, precision, saving."""

import copy
import io
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.comparing import (
    NO,
    RAISES,
    YES,
    Comparison,
    Outcome,
    guarded,
    random_tokens,
)
from tests.public_packages.contender import Contender, Wrapped
from tests.public_packages.examination import round_up, seeded

LENGTH = 48
SMALL_CHANGE = 1e-8  # of parameters, relative
# Outputs answer twice the change by twice the answer, up to 1e-6 in float64; what is rounded to
# float32 in between moves in jumps.
LINEARITY = 1e-2
DRAWS = 4
AGREEMENT = 1e-3  # of float64 with float32


def build(contender: Contender, vocabulary: int, seed: int = 0, **changes: Any) -> Wrapped:
    """A model with the initial weights of a seed; only torch is seeded, as its users would."""
    torch.manual_seed(seed)
    return contender.build(vocabulary, **changes)


def same_seed_same_model(contender: Contender, vocabulary: int) -> Outcome:
    """Built twice from one seed of torch, the outputs are the same."""
    comparison = Comparison()
    tokens = random_tokens((2, round_up(LENGTH, contender.multiple_of)), vocabulary, seed=21)
    first, second = (seeded(build(contender, vocabulary).eval(), tokens) for _ in range(2))
    comparison.add(second, first, "built twice")
    return comparison.outcome()


def _behaviour(model: Wrapped, tokens: Tensor) -> list[Tensor]:
    """Everything that an argument may change: state, outputs in both modes, gradients."""
    seen = [value.detach().double() for value in model.state_dict().values() if value.ndim]
    model.eval()
    seen.append(model(tokens).detach().double())
    model.train()
    for draw in range(DRAWS):  # a layer is dropped by chance, which one draw may not show
        torch.manual_seed(draw)
        random.seed(draw)
        outputs = model(tokens)
        seen.append(outputs.detach().double())
    loss = nn.functional.cross_entropy(outputs.flatten(0, 1), tokens.roll(-1, 1).flatten())
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    seen += [g.detach().double() for g in gradients if g is not None]
    return seen


def arguments_without_effect(contender: Contender, vocabulary: int) -> dict[str, Any]:
    """Arguments of which another value changes no parameter, output, gradient or loss.

    Returns:
        "tried": all arguments; "without": those without effect; "raises": argument -> error, for
        values that cannot be built here.
    """
    tokens = random_tokens((2, round_up(LENGTH, contender.multiple_of)), vocabulary, seed=22)
    usual = _behaviour(build(contender, vocabulary), tokens)
    without: list[str] = []
    raised: dict[str, str] = {}
    for name, value in contender.changes.items():

        def differs(name: str = name, value: Any = value) -> Outcome:
            changed = _behaviour(build(contender, vocabulary, **{name: value}), tokens)
            same = len(changed) == len(usual) and all(
                a.shape == b.shape and torch.equal(a, b)
                for a, b in zip(usual, changed, strict=True)
            )
            return Outcome(NO if same else YES)

        outcome = guarded(differs)
        if outcome.holds == RAISES:
            raised[f"{name}={value!r}"] = outcome.where
        elif outcome.holds == NO:
            without.append(f"{name}={value!r}")
    return {"tried": len(contender.changes), "without": without, "raises": raised}


def parameter_counts(model: Wrapped, vocabulary: int, multiple: int) -> dict[str, Any]:
    """Parameters as ``parameters()`` has them, by distinct storage, and those without gradient."""
    named = dict(model.named_parameters())
    elements = sum(parameter.numel() for parameter in named.values())
    storages = {}
    for parameter in named.values():
        storage = parameter.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes() // parameter.element_size()
    tokens = random_tokens((2, round_up(LENGTH, multiple)), vocabulary, seed=23)
    model.train()
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
    loss.backward()
    unused = [n for n, p in named.items() if p.requires_grad and p.grad is None]
    state = model.state_dict(keep_vars=True)
    names_by_storage: dict[int, list[str]] = {}
    for name, value in state.items():
        if isinstance(value, Tensor) and value.numel():
            names_by_storage.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    shared = [names for names in names_by_storage.values() if len(names) > 1]
    model.zero_grad()
    return {
        "parameters": elements,
        "by_storage": sum(storages.values()),
        "without_gradient": unused,
        "shared": shared,
        "buffers_not_saved": [
            name for name, _ in model.named_buffers() if name not in model.state_dict()
        ],
    }


def works_in_float64(contender: Contender, vocabulary: int) -> Outcome:
    """After ``.double()`` outputs are float64, computed in float64, and near those of float32."""
    tokens = random_tokens((2, round_up(LENGTH, contender.multiple_of)), vocabulary, seed=24)
    single = seeded(build(contender, vocabulary).eval(), tokens)
    model = build(contender, vocabulary).eval().double()
    double = seeded(model, tokens)
    if double.dtype != torch.float64:
        return Outcome(NO, None, f"outputs are {str(double.dtype).removeprefix('torch.')}")
    scale = float(double.abs().max())
    far = float((single.double() - double).abs().max()) / scale
    if not far <= AGREEMENT:
        return Outcome(NO, far, "far from the outputs of float32")
    once, twice = (_moved(model, tokens, factor * SMALL_CHANGE) - double for factor in (1, 2))
    bend = float((twice - 2 * once).abs().max()) / max(float(once.abs().max()), 1e-30)
    if bend <= LINEARITY:
        return Outcome(YES)
    return Outcome(NO, None, "outputs are float64, but part of it is computed in float32")


def _moved(model: Wrapped, tokens: Tensor, change: float) -> Tensor:
    """Outputs after every real parameter has moved by ``change`` times a random share of it."""
    generator = torch.Generator().manual_seed(0)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved.parameters():
            if not parameter.is_complex():
                share = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.mul_(1 + change * share.to(parameter.dtype))
    return seeded(moved, tokens)


def saved_and_loaded(
    model: Wrapped, contender: Contender, vocabulary: int, save: Callable[[Any, Any], None]
) -> Outcome:
    """The ``state_dict`` of a trained model, loaded into one of another seed, is the same model."""
    tokens = random_tokens((2, round_up(LENGTH, contender.multiple_of)), vocabulary, seed=25)
    file = io.BytesIO()
    save(model.state_dict(), file)
    file.seek(0)
    loaded = build(contender, vocabulary, seed=99)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    comparison = Comparison()
    expected = seeded(model.eval(), tokens)
    comparison.add(seeded(loaded.eval(), tokens), expected, "loaded into a new model")
    return comparison.outcome()
