"""The generators that a model may draw from without being given one: those of PyTorch, of NumPy and
of Python's ``random``. All of them are seeded together, as functions of one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from core.seeding import derive_seed


def seed_python_generators(seed: int) -> None:
    """Seed the global generators of ``random`` and of NumPy, in about 10 microseconds."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # packages draw from this one


@contextmanager
def kept_python_generators() -> Iterator[None]:
    """Leave the global generators of ``random`` and of NumPy as they were."""
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed every global generator. PyTorch's are seeded as ``torch.manual_seed(seed)`` does, so
    that what is drawn from them does not depend on the other two.

    Args:
        seed: in [0, 2**63).
    """
    if device.type == "cpu":
        # torch.manual_seed formats a stack trace for each kind of accelerator that is not in use:
        # milliseconds in every step.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    seed_python_generators(seed)


def evaluation_seed(seed: int, split: str) -> int:
    """The seed of whatever a model draws as a split is measured, during training and after it.

    Args:
        seed: of the initial weights of the model.
    """
    return derive_seed(seed, "evaluation", split)


@contextmanager
def kept_random_state(device: torch.device) -> Iterator[None]:
    """Leave every global generator as it was; other GPUs than ``device`` are not touched."""
    devices = [device] if device.type == "cuda" else []
    with kept_python_generators(), torch.random.fork_rng(devices=devices):
        yield


def next_python_draws() -> tuple[float, float]:
    """The next number of each of the two generators: after a seed always the same, unless somebody
    has drawn in between."""
    return random.random(), float(np.random.random_sample())  # noqa: NPY002


def state_of_python_generators() -> tuple[object, ...]:
    """Equal for two moments between which nobody has drawn from ``random`` or NumPy's generator."""
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    words, position = state["state"]["key"].tobytes(), state["state"]["pos"]
    return random.getstate(), words, position, state["has_gauss"], state["gauss"]


class GeneratorStates:
    """Every global generator as it is now; of the GPUs that of ``device``."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.of_python, self.of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        self.of_torch = torch.get_rng_state()
        self.of_gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        """Set all of them to these states."""
        random.setstate(self.of_python)
        np.random.set_state(self.of_numpy)  # noqa: NPY002
        torch.set_rng_state(self.of_torch)
        if self.of_gpu is not None:
            torch.cuda.set_rng_state(self.of_gpu, self.device)
