"""The data of the package ``cogscale``: its arrays, as its own functions make them.

It is imported when data are made, and not before, so that everything else works without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGE, VERSION = "cogscale", "0.2.0"
MASKED = -100.0  # in every channel of a target that is not asked for
UNSTABLE = "cross_situation"  # whose columns follow the hash seed of the process


@dataclass(frozen=True)
class Sequences:
    """One split: inputs float32 (count, time, channels), targets float32 (count, time, outputs)
    with −100 where nothing is asked."""

    inputs: Tensor
    targets: Tensor

    @property
    def asked(self) -> Tensor:
        """Where an answer is asked for, bool (count, time)."""
        return (self.targets != MASKED).any(-1)


@dataclass(frozen=True)
class PackageData:
    """What the package makes of a task.

    Attributes:
        category: "classification", "multi_classification" or "regression".
        splits: of "train", "validation" and "test".
    """

    category: str
    splits: dict[str, Sequences]


def check_version() -> None:
    """Raises:
    ValueError: the package is missing, or of another version, which has other data.
    """
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        installed = None
    if installed != VERSION:
        state = "is not installed" if installed is None else f"is of version {installed}"
        raise ValueError(
            f"tasks=cogscale takes its data from {PACKAGE} {VERSION}, which {state}: "
            f"python -m pip install --no-deps {PACKAGE}=={VERSION}"
        )


def make(task_name: str, difficulty: str, data_seed: int) -> PackageData:
    """The data of one of its tasks, where :func:`check_version` has found it."""
    import cogscale

    content = cogscale.build_task(task_name, difficulty=difficulty, seed=data_seed)
    names = {"train": "train", "validation": "valid", "test": "test"}
    inputs = {split: _float32(content[f"X_{name}"]) for split, name in names.items()}
    targets = {split: _float32(content[f"Y_{name}"]) for split, name in names.items()}
    if task_name == UNSTABLE:
        # Words are numbered in the order of a set, another one in each process. Any fixed order
        # gives the same task; this one depends on nothing but the sequences.
        order = _order_of_columns(np.concatenate(list(inputs.values())))
        inputs = {split: np.ascontiguousarray(array[..., order]) for split, array in inputs.items()}
    splits = {}
    for split in names:
        splits[split] = Sequences(torch.from_numpy(inputs[split]), torch.from_numpy(targets[split]))
    return PackageData(content["category"], splits)


def parameters(task_name: str, difficulty: str) -> dict[str, Any]:
    """The package's own settings of a task, such as ``base_length``."""
    from cogscale import evals

    content: dict[str, Any] = getattr(evals, f"cogscale_{difficulty}")[task_name]["params"]
    return content


def _float32(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, dtype=np.float32)


def _order_of_columns(inputs: np.ndarray) -> np.ndarray:
    """The columns of inputs (count, time, channels) by what they hold, the first position last."""
    columns = inputs.reshape(-1, inputs.shape[-1])
    return np.lexsort(columns)
