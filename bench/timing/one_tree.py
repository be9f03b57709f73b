"""Training passes of one model of one checkout, each when it is asked for: what
``beside_older_code.py`` runs in a process for each of two checkouts.

Of the checkout it needs ``models/`` alone, so that it may be much older than this file.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

# Keys of a model's file that are no arguments of its class.
DESCRIPTIVE = ("_target_", "card")


class _CallCounter(TorchDispatchMode):
    """Counts the operators that run under it, views too."""

    calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def main(request: dict[str, Any]) -> None:
    """Say what the first pass gave, then a time for each line that comes in."""
    torch.set_num_threads(request["threads"])
    with suppress(
        ImportError, AttributeError
    ):  # what a training process of this checkout does, if it does
        importlib.import_module("bench.training.memory").keep_freed_memory()
    content = yaml.safe_load(Path("models", f"{request['model']}.yaml").read_text())
    module, _, name = content["_target_"].rpartition(".")
    arguments = {key: value for key, value in content.items() if key not in DESCRIPTIVE}
    arguments |= {key: value for key, value in request["shapes"].items() if key in arguments}
    length, vocabulary = request["length"], request["vocabulary"]
    specification = importlib.import_module("models.specification").SequenceSpecification
    torch.manual_seed(request["seed"])
    model = getattr(importlib.import_module(module), name)(
        specification(length + 1, vocabulary=vocabulary), **arguments
    ).train()
    tokens = torch.randint(vocabulary, (request["batch"], length + 1))

    def step() -> Tensor:
        outputs = model(tokens[:, :-1])
        loss = functional.cross_entropy(outputs.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        return loss.detach()

    with _CallCounter() as counter:
        loss = float(step())
    lengths = [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]
    now = time.process_time if request["threads"] == 1 else time.perf_counter
    print(json.dumps({"loss": loss, "gradients": lengths, "calls": counter.calls}), flush=True)
    for _ in sys.stdin:
        model.zero_grad(set_to_none=True)
        begin = now()
        step()
        seconds = now() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": seconds, "peak": peak}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
