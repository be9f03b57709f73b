"""Lightning's loop without the libraries that its import drags along.

Lightning needs two classes of torchmetrics, and importing torchmetrics imports transformers, scipy
and matplotlib wherever they are installed: half of the time to the first step, for metrics and
plots that no training here draws. So they look absent while Lightning is imported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import DistributionFinder, PackageNotFoundError
from typing import Any


class _Hidden(DistributionFinder):
    """Says that packages are not installed, to those who ask for their versions."""

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = frozenset(packages)

    def find_spec(self, *_: object) -> None:
        return None  # for the finders that follow

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008  # theirs
    ) -> Iterable[Any]:
        if context.name in self.packages:
            raise PackageNotFoundError(context.name)
        return ()


@contextmanager
def packages_hidden(*packages: str) -> Iterator[None]:
    """Inside, ``packages`` that are not imported yet look as if they were not installed.

    Afterwards they can be imported as ever. Who has found one absent inside may remember that: in
    a process that trains, torchmetrics has no BERTScore and no plots.
    """
    to_hide = [name for name in packages if name not in sys.modules]
    finder = _Hidden(to_hide)
    sys.modules.update(dict.fromkeys(to_hide))  # type: ignore[arg-type]  # None: an import fails
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in to_hide:
            del sys.modules[name]


@contextmanager
def without_collections() -> Iterator[None]:
    """Inside, nothing looks for garbage: imports make objects by the hundred thousand and keep
    them, and looking through these again and again takes a fifth of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


with without_collections():
    import torch._dynamo  # noqa: F401  # PyTorch's optimisers need it, with all libraries in sight

    with packages_hidden("matplotlib", "scipy", "transformers"):
        from lightning.pytorch import LightningModule, Trainer
        from lightning.pytorch.plugins.environments import LightningEnvironment
        from lightning.pytorch.utilities.exceptions import SIGTERMException

__all__ = [
    "LightningEnvironment",
    "LightningModule",
    "SIGTERMException",
    "Trainer",
    "packages_hidden",
]
