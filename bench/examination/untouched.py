"""A copy of a model as it was before it was asked anything, to see whether its answers depend on
what it was asked before.

A cache by the first tokens of a sequence gives the same inputs the same answers twice: those of
whichever sequence began so first. A copy that has seen no other sequence answers by the inputs
alone. Caches may also lie in a class, in a module or in a function with ``lru_cache``, which a copy
shares, so these are as they were while it answers.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.reader import ModelReader

CONTAINERS = (dict, list, set, OrderedDict, defaultdict, deque)
# Packages whose classes and modules are not looked into: none keeps what a sequence was.
TRUSTED = {"torch", "builtins", "abc", "typing", "models"}


class UntouchedCopy:
    """The model of an examination, before its first call.

    Attributes:
        first: inputs and outputs of the very first call, in eval mode; a copy that does not give
            them is none.
    """

    def __init__(self, model: nn.Module) -> None:
        self.first: tuple[Tensor, Tensor] | None = None
        self._shared = list(_containers_behind(model))
        self._contents = [copy.copy(container) for container in self._shared]
        self._caches = [(function, _size(function)) for function in _caches_behind(model)]
        self._model: nn.Module | None = None
        if any(map(_holds_on, model.modules())):
            return
        try:
            self._model = copy.deepcopy(model)
        except Exception:  # a stranger's model may refuse to be copied in any way
            return

    def read(
        self,
        model: nn.Module,
        reader: ModelReader,
        inputs: Tensor,
        training: bool = False,
        *,
        history: Tensor | None = None,
        of_first_weights: bool = False,
    ) -> Tensor | None:
        """What a copy answers with the parameters that ``model`` has now; None where it cannot be
        asked.

        Args:
            history: inputs that the copy is asked for before.
            of_first_weights: whether it has its first parameters then.
        """
        asking = ModelReader(reader.seed, reader.by_hidden)
        try:
            with self._forgotten():
                untouched = copy.deepcopy(self._model)
                if untouched is None:
                    return None
                if history is not None and of_first_weights:
                    asking.read(untouched, history, training)
                    untouched.train()  # what is kept of weights may be dropped there
                _give_parameters(untouched, model)
                if history is not None and not of_first_weights:
                    asking.read(untouched, history, training)
                return asking.read(untouched, inputs, training)
        except Exception:  # as of any copy
            return None

    def is_faithful(self, reader: ModelReader) -> bool:
        """Whether another copy gives the very first answer, which has no history."""
        if self.first is None or self._model is None:
            return False
        inputs, outputs = self.first
        try:
            with self._forgotten(), torch.no_grad():
                answer = ModelReader(reader.seed, False).call(
                    copy.deepcopy(self._model).eval(), inputs, hidden=False
                )
        except Exception:
            return False
        return torch.allclose(answer, outputs, rtol=1e-3, atol=1e-3 * float(outputs.abs().max()))

    @contextmanager
    def _forgotten(self) -> Iterator[None]:
        """In this block what classes and modules hold is what they held at first."""
        now = [copy.copy(container) for container in self._shared]
        self._fill_shared(self._contents)
        self._clear_caches()
        try:
            yield
        finally:
            self._clear_caches()  # their contents cannot be put back
            self._fill_shared(now)

    def _fill_shared(self, contents: Sequence[Any]) -> None:
        """Let containers that hold anything else hold this."""
        for container, content in zip(self._shared, contents, strict=True):
            if not _same(container, content):
                _fill(container, content)

    def _clear_caches(self) -> None:
        for function, size in self._caches:
            if _size(function) != size:
                function.cache_clear()


def _give_parameters(to: nn.Module, model: nn.Module) -> None:
    if _type_of(to) != _type_of(model):  # which is the same in float64
        to.to(dtype=_type_of(model))
    with torch.no_grad():
        for parameter, value in zip(to.parameters(), model.parameters(), strict=True):
            parameter.copy_(value)


def _type_of(model: nn.Module) -> torch.dtype | None:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), None)


def _holds_on(module: nn.Module) -> bool:
    """Whether a hook or an attribute is a function with variables of its surroundings. A copy has
    the same function, by which it would write into the model that it is a copy of."""
    attributes = list(vars(module).values())
    attributes += [one for held in attributes if isinstance(held, dict) for one in held.values()]
    return any(isinstance(value, FunctionType) and value.__closure__ for value in attributes)


def _namespaces_behind(model: nn.Module) -> Iterator[dict[str, Any]]:
    """The contents of the classes of a model's parts, and of the modules that define them."""
    classes = {base for module in model.modules() for base in type(module).__mro__}
    strange = [c for c in classes if c.__module__.partition(".")[0] not in TRUSTED]
    for kind in strange:
        yield dict(vars(kind))
    for name in {kind.__module__ for kind in strange}:
        if name in sys.modules:
            yield dict(vars(sys.modules[name]))


def _containers_behind(model: nn.Module) -> Iterator[Any]:
    seen = set()
    for namespace in _namespaces_behind(model):
        for name, value in namespace.items():
            if type(value) in CONTAINERS and not name.startswith("__") and id(value) not in seen:
                seen.add(id(value))
                yield value


def _caches_behind(model: nn.Module) -> Iterator[Any]:
    for namespace in _namespaces_behind(model):
        for value in namespace.values():
            if hasattr(value, "cache_clear") and hasattr(value, "cache_info"):
                yield value


def _size(function: Any) -> int:
    return int(function.cache_info().currsize)


def _same(first: Any, second: Any) -> bool:
    """Whether two containers hold the very same objects."""
    if len(first) != len(second):
        return False
    if isinstance(first, dict):
        return all(key in second and second[key] is value for key, value in first.items())
    if isinstance(first, set):
        return bool(first == second)
    return all(a is b for a, b in zip(first, second, strict=True))


def _fill(container: Any, contents: Any) -> None:
    container.clear()
    container.extend(contents) if isinstance(container, list | deque) else container.update(
        contents
    )
