"""Settings of PyTorch that hold for a whole process, which a model's package may change.

Another model of the same process would be made with them, and its record would not say so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

from bench.config.limits import gpu_share
from bench.training.memory import keep_freed_memory
from bench.training.unfit import UnfitModel
from core.errors import UserError


class ProcessSetting(NamedTuple):
    """How a setting of the process is read and set."""

    read: Callable[[], Any]
    set: Callable[[Any], Any]


def _flag_of_cudnn(name: str) -> ProcessSetting:
    cudnn = torch.backends.cudnn
    return ProcessSetting(partial(getattr, cudnn, name), partial(setattr, cudnn, name))


def _set_default_device(device: torch.device) -> None:
    """A CPU without an index is what there is without a setting: none is set then, since with one
    every call of PyTorch passes through a mode, which torch.compile cannot trace."""
    torch.set_default_device(None if device == torch.device("cpu") else device)


def _autocast(kind: str) -> ProcessSetting:
    def set_enabled(enabled: bool) -> None:
        torch.set_autocast_enabled(kind, enabled)
        if not enabled:
            # What was entered and never left would keep copies of weights as they were.
            depth = torch.autocast_increment_nesting()
            for _ in range(depth):
                torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()

    return ProcessSetting(partial(torch.is_autocast_enabled, kind), set_enabled)


def _open_function_modes() -> int:
    """Without that of a default device, which is a setting of its own."""
    modes = torch.overrides._get_current_function_mode_stack()
    return sum(not isinstance(mode, DeviceContext) for mode in modes)


def _open_dispatch_modes() -> int:
    return len(_python_dispatch._get_current_dispatch_mode_stack())


def _let_modes_be(
    count: Callable[[], int], leave: Callable[[], Any], enter: Callable[[], Any], number: int
) -> None:
    while count() > number:
        leave()
    while count() < number:
        enter()


SETTINGS: dict[str, ProcessSetting] = {
    "default type": ProcessSetting(torch.get_default_dtype, torch.set_default_dtype),
    "default device": ProcessSetting(torch.get_default_device, _set_default_device),
    "gradients": ProcessSetting(torch.is_grad_enabled, torch.set_grad_enabled),
    "threads": ProcessSetting(torch.get_num_threads, torch.set_num_threads),
    "deterministic algorithms": ProcessSetting(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
    ),
    "precision of products": ProcessSetting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    ),
    "anomaly detection": ProcessSetting(
        torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly
    ),
    "TF32 of cuDNN": _flag_of_cudnn("allow_tf32"),
    "benchmark of cuDNN": _flag_of_cudnn("benchmark"),
    "determinism of cuDNN": _flag_of_cudnn("deterministic"),
    "autocast": _autocast("cpu"),
    "autocast of GPUs": _autocast("cuda"),
    "open function modes": ProcessSetting(
        _open_function_modes,
        partial(
            _let_modes_be,
            _open_function_modes,
            torch.overrides._pop_mode,
            lambda: torch.overrides.BaseTorchFunctionMode().__enter__(),
        ),
    ),
    "open dispatch modes": ProcessSetting(
        _open_dispatch_modes,
        partial(
            _let_modes_be,
            _open_dispatch_modes,
            _python_dispatch._pop_mode,
            lambda: _python_dispatch.BaseTorchDispatchMode().__enter__(),
        ),
    ),
}
# The function of PyTorch by which a setting is changed, for sentences.
FUNCTIONS = {
    "default type": "torch.set_default_dtype",
    "default device": "torch.set_default_device",
    "gradients": "torch.set_grad_enabled",
    "threads": "torch.set_num_threads",
    "deterministic algorithms": "torch.use_deterministic_algorithms",
    "precision of products": "torch.set_float32_matmul_precision",
    "anomaly detection": "torch.autograd.set_detect_anomaly",
    "TF32 of cuDNN": "torch.backends.cudnn.allow_tf32",
    "benchmark of cuDNN": "torch.backends.cudnn.benchmark",
    "determinism of cuDNN": "torch.backends.cudnn.deterministic",
    "autocast": "torch.autocast",
    "autocast of GPUs": "torch.autocast",
    "open function modes": "TorchFunctionMode.__enter__",
    "open dispatch modes": "TorchDispatchMode.__enter__",
}
# What a model is made of: once they were others, its weights are not those of its record.
OF_WEIGHTS = ("default type", "default device")


def set_numerics(threads: int) -> None:
    """What the numbers of this process depend on beside its seeds, and how it keeps memory."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32, for LSTMs as for the rest
    # And for kernels, which read it as they compile: three products in TF32 are float32 but for its
    # last bits. "ieee" compiles four times as long, which is minutes before a first step.
    os.environ["TRITON_F32_DEFAULT"] = "tf32x3"
    if (share := gpu_share()) < 1 and torch.cuda.is_available():
        # One run that wants too much is then a row that is out of memory, and its neighbours go on.
        torch.cuda.set_per_process_memory_fraction(share)


@contextmanager
def kept_settings() -> Iterator[dict[str, Any]]:
    """Put the settings back at the end, whatever was done to them.

    Yields:
        those that were changed, name -> the other value; empty until the end.
    """
    before = {name: setting.read() for name, setting in SETTINGS.items()}
    changed: dict[str, Any] = {}
    try:
        yield changed
    finally:
        for name, setting in SETTINGS.items():
            # Read after the work: whoever set it, and in whichever way.
            if (value := setting.read()) != before[name]:
                changed[name] = value
                setting.set(before[name])


@contextmanager
def settings_of_others(model: str) -> Iterator[None]:
    """Build a model of somebody else, and leave the settings as they were.

    Args:
        model: its name, for the sentence.

    Raises:
        UserError: it was built with other settings than those of its record.
    """
    with kept_settings() as changed:
        yield
    for name in OF_WEIGHTS:
        if name in changed:
            raise UserError(
                f"models ({model}): its constructor sets PyTorch's {name} to {changed[name]}, for "
                f"all models of this process: take {FUNCTIONS[name]} out of it, and give dtype= or "
                "device= where a tensor is made, or let training.precision choose"
            )


def refuse_other_settings(changed: Mapping[str, Any]) -> None:
    """After a model was called.

    Args:
        changed: settings that it has left other than they were, name -> value.

    Raises:
        UnfitModel: there are some, so that the rest of the run is computed in another way than its
            record says.
    """
    for name, value in changed.items():
        raise UnfitModel(other_setting(name, value))


def other_setting(name: str, value: object) -> str:
    """Why a run whose model has left a setting of the process at a value cannot stand."""
    return (
        f"as it is called, the model sets PyTorch's {name} to {value} for the whole process, so "
        f"that whatever follows is computed in another way than the record says: take "
        f"{FUNCTIONS[name]} out of it, or put the setting back before the call ends"
    )


def refuse_own_seed(model: str, seed: int) -> None:
    """After a model was built with PyTorch's generator at ``seed``.

    Raises:
        UserError: it has seeded that generator itself, so that no seed of a run is another start.
    """
    if torch.default_generator.initial_seed() != seed:
        raise UserError(
            f"models ({model}): its constructor seeds PyTorch's generator (torch.manual_seed, or a "
            "function that calls it), so that every seed of a sweep would start from the same "
            "weights: take that out, or draw from a torch.Generator of its own"
        )


def in_eval_mode(measure: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a task that takes a model first, called without gradients and in eval mode."""

    @wraps(measure)
    def measured(model: nn.Module, *arguments: Any, **named: Any) -> Any:
        modes = {module: module.training for module in model.modules()}
        try:
            with torch.no_grad():
                return measure(model.eval(), *arguments, **named)
        finally:
            for module, training in modes.items():
                module.training = training

    return measured
