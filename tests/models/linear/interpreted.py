"""Triton's kernels without a GPU: its interpreter runs them on a CPU, operation by operation.

``TRITON_INTERPRET=1`` turns it on, before Triton is imported. It computes products in float32, so
it shows that a kernel computes the right thing, and neither what a GPU rounds nor whether the
kernel compiles there. :func:`prepare` bridges what the interpreter lacks for the kernels of
flash-linear-attention 0.6, as of Triton 3.7.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch

from models.layers.recurrence.kernels import installed

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
RUNS = installed() and (INTERPRETED or torch.cuda.is_available())
NO_GPU = "Triton kernels need a GPU and the extra [gpu]; without a GPU: nox -s kernels"
KERNELS = ("gated_delta_rule", "gla", "kda", "simple_gla")
# Which of a kernel's configurations wins is measured on a GPU; these say how it is launched there.
LAUNCHING = {"num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override"}


def prepare() -> None:
    """Make the interpreter run the kernels. Can be called again."""
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    cached = importlib.import_module("fla.ops.utils.cache")
    kinds = [kind for kind in vars(cached).values() if isinstance(kind, type)]
    for kind in (autotuner, *(kind for kind in kinds if issubclass(kind, autotuner))):
        kind.run = _run_first
    for name in KERNELS:
        importlib.import_module(f"fla.ops.{name}")
    for name, module in list(sys.modules.items()):
        if name.startswith("fla.ops") and module is not None:
            vars(module)["range"] = _positions


class _Position(int):
    """A number of a loop, which the kernels convert as if it were a tensor."""

    def to(self, dtype: Any) -> int:
        """The same number: Python's are as wide as they have to be."""
        return int(self)


def _positions(*ends: int) -> Iterator[_Position]:
    return map(_Position, range(*ends))


def _run_first(tuner: Any, *words: Any, **named: Any) -> Any:
    """Run a kernel by the first of its configurations: there is nothing to measure here."""
    tuner.nargs = dict(zip(tuner.arg_names, words, strict=False))
    first = tuner.prune_configs(named)[0]
    chosen = {k: v for k, v in first.all_kwargs().items() if k not in LAUNCHING}
    if first.pre_hook:
        first.pre_hook({**tuner.nargs, **named, **chosen})
    return tuner.fn.run(*words, **named, **chosen)
