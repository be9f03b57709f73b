"""Triton's kernels compiled for a GPU that is not here, which their interpreter cannot show.

:func:`recorded` notes what the interpreter launches: a kernel, and of each argument what a compiler
has to know. ``python -m tests.models.linear.compiled FILE``, without the interpreter, compiles each
launch of such a file to machine code, by the first of its kernel's configurations that needs no
more shared memory than there is, and prints those that none can compute.
"""

import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from bench.training.numerics import set_numerics

HOPPER, SHARED_BYTES = 90, 232_448  # of an H100 or H200: its architecture, and what a block may use
POINTERS = {torch.float32: "*fp32", torch.int32: "*i32", torch.int64: "*i64"}


def recorded(compute: Callable[[], None]) -> list[dict[str, Any]]:
    """The different launches that a computation makes under Triton's interpreter."""
    interpreted = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
    run, found = interpreted.run, {}

    def note(kernel: Any, *words: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        own = {key: value for key, value in named.items() if key in kernel.arg_names}
        given = inspect.signature(kernel.fn).bind_partial(*words, **own)
        given.apply_defaults()
        launch = {
            "module": kernel.fn.__module__,
            "kernel": kernel.fn.__qualname__,
            "arguments": {key: _described(value) for key, value in given.arguments.items()},
        }
        found[json.dumps(launch, sort_keys=True)] = launch
        return run(kernel, *words, grid=grid, warmup=warmup, **named)

    with mock.patch.object(interpreted, "run", note):
        compute()
    return list(found.values())


def _described(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {"type": POINTERS[value.dtype]}
    if value is None:
        return {"type": "constexpr", "value": None}
    return {"type": "fp32" if isinstance(value, float) else "i32", "value": value}


def failures(launches: list[dict[str, Any]]) -> list[str]:
    """Those that no configuration of their kernel can compute, and why."""
    found = []
    for launch in launches:
        kernel = getattr(importlib.import_module(launch["module"]), launch["kernel"])
        configurations = [None]
        while hasattr(kernel, "fn") and not hasattr(kernel, "params"):  # autotuner and heuristics
            configurations = getattr(kernel, "configs", configurations)
            kernel = kernel.fn
        reasons = []
        for configuration in configurations:
            why = _failure(kernel, launch["arguments"], configuration)
            if why is None:
                break
            reasons.append(why)
        else:
            found.append(f"{launch['module']}.{launch['kernel']}: {reasons}")
    return found


def _failure(kernel: Any, arguments: dict[str, Any], configuration: Any) -> str | None:
    """Why a kernel cannot be compiled with a configuration of its autotuner."""
    compiler = importlib.import_module("triton.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", HOPPER, 32)
    tuned = configuration.kwargs if configuration else {}
    options = {
        key: getattr(configuration, key) for key in ("num_warps", "num_stages") if configuration
    }
    signature, constants = {}, {}
    for parameter in kernel.params:
        name = parameter.name
        given = {"value": tuned[name]} if name in tuned else arguments[name]
        fixed = parameter.is_constexpr or given["type"] == "constexpr"
        signature[name] = "constexpr" if fixed else given["type"]
        if fixed:
            constants[name] = given["value"]
    source = compiler.ASTSource(kernel, signature=signature, constexprs=constants)
    try:
        compiled = compiler.compile(source, target=target, options=options)
    except Exception as error:  # whatever stops a compiler is what this asks for
        return f"{type(error).__name__}: {error}"
    shared = compiled.metadata.shared
    return f"{shared} bytes of shared memory" if shared > SHARED_BYTES else None


if __name__ == "__main__":
    set_numerics(1)
    print(json.dumps(failures(json.loads(Path(sys.argv[1]).read_text()))))
