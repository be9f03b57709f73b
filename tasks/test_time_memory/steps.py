"""How many steps an optimiser takes inside a memory, seen from outside of it."""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook


class OptimiserSteps:
    """Counts the steps of all PyTorch optimisers while the context is open. Gradient steps that a
    memory takes without one, such as those of a neural memory as a recurrence, are not seen.

    Attributes:
        taken: the steps so far. One step moves all memories of a batch.
    """

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> OptimiserSteps:
        # A hook for all optimisers of the process: a memory need not show its own.
        self._hook = register_optimizer_step_post_hook(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _count(self, *_: Any) -> None:
        self.taken += 1
