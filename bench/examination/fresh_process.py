"""A model built in another process, where strings have other hashes and modules are imported anew.

Within one process two things look the same that are not: what is drawn once, while a module is
imported, and what follows the order of a set or the hash of a string. A process costs seconds, so
one is started only for a class of another package whose source names such a source, and it works
beside this one. As a program it is that other process: ``FOLDER`` holds what is asked of it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.config.source_files import places_of, use_places
from bench.examination.observing import CPU, observe
from bench.records.code import is_own, modules_behind
from bench.training.building import initial_model
from bench.training.numerics import set_numerics
from bench.training.seeding import kept_random_state
from core.processes import module_command
from models.specification import SequenceSpecification

SECONDS = 60.0  # after which the other process is given up, and nothing is known
REQUEST, INPUTS, RESULT = "request.json", "inputs.safetensors", "result.safetensors"
# What a source may import or call to have numbers that another process has otherwise.
MODULES = {"secrets", "uuid", "time", "datetime"}
CALLS = {
    *("hash", "id", "set", "frozenset", "getpid", "urandom", "getrandom", "SystemRandom"),
    *("Random", "default_rng", "RandomState", "SeedSequence"),
    # Addresses, of which the text of an object has one too.
    *("repr", "__hash__", "data_ptr", "get_ident"),
}


def may_differ(target: str) -> bool:
    """Whether the source of a class of another package or file, or of what it imports from there,
    names a source of numbers that are others in another process."""
    for name, path in modules_behind(target).items():
        if is_own(name):
            continue
        if any(map(_names_a_source, ast.walk(ast.parse(path.read_bytes())))):
            return True
    return False


def _names_a_source(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in MODULES or any(alias.name in CALLS for alias in node.names)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        return (called.id if isinstance(called, ast.Name) else called) in CALLS
    return isinstance(node, ast.Set | ast.SetComp)


@contextmanager
def built_elsewhere(
    models: Mapping[str, Any], specification: SequenceSpecification, seed: int, inputs: Tensor
) -> Iterator[Callable[[], dict[str, Tensor] | None]]:
    """Start a process that builds a model and observes it; a call waits for what it saw, which is
    None where it could not.

    Args:
        models: the class as ``_target_``, and its settings.
    """
    hash_seed = os.environ.get("PYTHONHASHSEED")
    with tempfile.TemporaryDirectory(prefix="examination-") as name:
        folder = Path(name)
        save_file({"inputs": inputs.cpu().contiguous()}, folder / INPUTS)
        request = {
            "models": dict(models),
            "specification": dataclasses.asdict(specification),
            "seed": seed,
            "threads": torch.get_num_threads(),
            "path": sys.path,
            "places": {name: str(place) for name, place in places_of(models["_target_"]).items()},
        }
        (folder / REQUEST).write_text(json.dumps(request))
        process = subprocess.Popen(
            module_command("bench.examination.fresh_process", [str(folder)]),
            env={**os.environ, "PYTHONHASHSEED": "1" if hash_seed == "0" else "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def result() -> dict[str, Tensor] | None:
            try:
                ended = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                return None
            return load_file(folder / RESULT) if ended == 0 else None

        try:
            yield result
        finally:
            process.kill()
            process.wait()


def observed(
    models: Mapping[str, Any],
    specification: SequenceSpecification,
    seed: int,
    inputs: Tensor,
) -> dict[str, Tensor]:
    """The model of one seed on a CPU, as the other process sees it; no generator is moved."""
    with kept_random_state(CPU):
        return observe(initial_model(models, specification, seed, CPU), inputs.cpu())


def main(folder: Path) -> None:
    """Build, observe and write what is asked for in a folder."""
    request = json.loads((folder / REQUEST).read_text())
    sys.path[:] = request["path"]
    use_places({name: Path(place) for name, place in request["places"].items()})
    set_numerics(request["threads"])
    specification = SequenceSpecification(**request["specification"])
    inputs = load_file(folder / INPUTS)["inputs"]
    seen = observed(request["models"], specification, request["seed"], inputs)
    save_file(seen, folder / RESULT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
