"""What one state of the code computes for a proof by rounding, in a process of its own.

``python -m bench.runs.proofs.rounding.side REQUEST.json``: short trainings of one setting, in
float64 and in float32, as the models and tasks of this checkout make them. The engine is that of
the checkout that proves, on both sides: it is no part of a run's identity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bench.config.settings import Configuration
from bench.records.code import code_hash
from bench.training.building import build_model, build_task, data_hashes, prepare_data
from bench.training.numerics import set_numerics
from bench.training.optimisation import build_optimizer, learning_rate_at, set_learning_rate
from bench.training.seeding import kept_random_state, seed_generators, state_of_python_generators
from core.errors import OK, command
from core.progress import silent
from core.seeding import derive_seed
from tasks.interface import Batch, Evaluation, Split, Task

STEPS = 50
WEIGHTS_AFTER = (1, 5, 15, STEPS)  # steps
SEQUENCES = 2  # of the first batch whose outputs are compared; over a vocabulary they are large
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class TrainingVariant(BaseModel):
    """One training of a side.

    Attributes:
        dtype: "float64" or "float32".
        last_bits: seed of the last bits of all weights, which are drawn anew; None: as they are.
        evaluate: whether the task's whole evaluation follows.
    """

    dtype: str
    last_bits: int | None = None
    evaluate: bool = False

    @property
    def name(self) -> str:
        """The name of the file of its numbers."""
        return f"{self.dtype}-{'plain' if self.last_bits is None else self.last_bits}.pt"


class TrainingsRequest(BaseModel):
    """What a side is asked for.

    Attributes:
        settings: of ``Configuration.of``.
        output: folder that each variant's answer is written to.
    """

    settings: dict[str, Any]
    variants: list[TrainingVariant]
    output: Path


class _InFloat64(TorchFunctionMode):
    """Within it what asks for float32 gets float64: losses and metrics are computed in float32
    where a model may compute in half precision, and their rounding would hide what is looked for.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        if func is Tensor.to:
            args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        return func(*args, **(kwargs or {}))


@contextmanager
def _computing_in(dtype: torch.dtype) -> Iterator[None]:
    """In this block a model and its task compute in one type."""
    if dtype != torch.float64:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # of constants that a model makes
    try:
        with _InFloat64():
            yield
    finally:
        torch.set_default_dtype(before)


def answer(request: TrainingsRequest) -> None:
    """Make the trainings of a request, and write what they gave.

    Raises:
        UserError: this code cannot make such a run.
    """
    configuration = Configuration.of(request.settings)
    set_numerics(configuration.training.threads)
    prepare_data(configuration, silent)
    data = data_hashes(configuration)
    for variant in request.variants:
        torch.save(_make(configuration, variant), request.output / variant.name)
    facts = {
        "config": configuration.resolved(),
        "data": data,
        "codes": [code_hash(str(part["_target_"])) for part in _parts(configuration)],
    }
    (request.output / "facts.json").write_text(json.dumps(facts))


def _parts(configuration: Configuration) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return configuration.tasks, configuration.models


def _make(configuration: Configuration, variant: TrainingVariant) -> dict[str, Any]:
    """One training: what must be the same bit for bit, and what up to rounding.

    Returns:
        "exact": place -> text; "numbers": kind -> name -> tensor.
    """
    trained = configuration.of_training()
    task, evaluated_task = build_task(trained), build_task(configuration)
    device, dtype = torch.device("cpu"), getattr(torch, variant.dtype)
    seed, settings = configuration.seed, trained.training
    model = build_model(configuration, task, seed)
    exact = {
        "the initial weights": _hash_of(model.state_dict().items()),
        "the sizes of the model": json.dumps(_sizes(model, task)),
    }
    model = model.to(dtype)
    if variant.last_bits is not None:
        change_last_bits(model, variant.last_bits)
    if dtype == torch.float64:
        for module in model.modules():  # a task may call another method than the model itself
            module.register_forward_pre_hook(_in_float64)
    first = _batch(task, seed, 0, settings.batch_size, dtype)
    with _computing_in(dtype), torch.no_grad(), kept_random_state(device):
        outputs = model.eval()(first.inputs[:SEQUENCES])
    numbers: dict[str, dict[str, Tensor]] = {"outputs": {"outputs": outputs}, "weights": {}}
    losses: list[Tensor] = []
    optimizer, rate_at = build_optimizer(model, settings), learning_rate_at(settings, STEPS)
    model.train()
    with kept_random_state(device):
        for step in range(STEPS):
            batch = _batch(task, seed, step, settings.batch_size, dtype)
            exact[f"the batch of step {step + 1}"] = _hash_of(_tensors(batch))
            set_learning_rate(optimizer, rate_at(step))
            # As the engine seeds a step.
            seed_generators(derive_seed(seed, "dropout", 0, step), device)
            optimizer.zero_grad()
            with _computing_in(dtype):
                loss = task.training_loss(model, batch)
            exact[f"the random numbers that step {step + 1} draws"] = _state_of_generators()
            loss.backward()
            losses.append(loss.detach())
            if not step:
                numbers["gradients"] = {
                    name: parameter.grad.clone()
                    for name, parameter in model.named_parameters()
                    if parameter.grad is not None
                }
            if settings.gradient_clip:
                nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimizer.step()
            if step + 1 in WEIGHTS_AFTER:
                for name, weight in model.state_dict().items():
                    numbers["weights"][f"{name} after {step + 1} steps"] = weight.clone()
    numbers["losses"] = {"training loss": torch.stack(losses)}
    if variant.evaluate:
        with _computing_in(dtype):
            numbers["evaluation"] = _evaluated(evaluated_task, model, seed)
    exact["names and shapes"] = json.dumps(
        {kind: {k: [*v.shape] for k, v in sorted(x.items())} for kind, x in numbers.items()}
    )
    longest_sum = max(
        first.inputs.shape[0] * first.inputs.shape[1],
        *(size for parameter in model.parameters() for size in parameter.shape),
    )
    return {"exact": exact, "numbers": numbers, "longest_sum": longest_sum}


def _sizes(model: nn.Module, task: Task) -> list[int | None]:
    state_bytes = getattr(model, "state_bytes", None)
    return [
        sum(parameter.numel() for parameter in model.parameters()),
        getattr(model, "position_parameters", int)(),
        state_bytes(task.specification().maximum_length) if state_bytes else None,
    ]


def change_last_bits(model: nn.Module, seed: int) -> None:
    """Draw the last bit of every weight anew, so that half of them change."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "last bits"))
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            values = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            bits = BITS.get(values.dtype)
            if bits is None:
                continue
            words = values.detach().clone(memory_format=torch.contiguous_format).view(bits)
            drawn = torch.randint(0, 2, words.shape, generator=generator, dtype=bits)
            values.copy_(((words & ~1) | drawn).view(values.dtype))


def _batch(task: Task, seed: int, step: int, size: int, dtype: torch.dtype) -> Batch:
    batch = task.training_batch(seed, step, size)
    extras = {name: _cast(value, dtype) for name, value in batch.extras.items()}
    inputs, targets = _cast(batch.inputs, dtype), _cast(batch.targets, dtype)
    return dataclasses.replace(batch, inputs=inputs, targets=targets, extras=extras)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    is_real = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if is_real else value


def _in_float64(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_cast(value, torch.float64) for value in inputs)


def _tensors(batch: Batch) -> Iterator[tuple[str, Tensor]]:
    yield "inputs", batch.inputs
    yield "targets", batch.targets
    yield from batch.extras.items()


def _hash_of(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 of names, types, shapes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def _state_of_generators() -> str:
    """Where all generators are: equal for two steps that have drawn the same."""
    digest = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    digest.update(repr(state_of_python_generators()).encode())
    return digest.hexdigest()


def _evaluated(task: Task, model: nn.Module, seed: int) -> dict[str, Tensor]:
    """All numbers of the task's whole protocol, by name."""
    numbers: dict[str, Tensor] = {}
    splits: tuple[Split, Split] = ("validation", "test")
    for split in splits:
        with torch.no_grad(), kept_random_state(torch.device("cpu")):
            seed_generators(derive_seed(seed, "evaluation", split), torch.device("cpu"))
            measured = task.evaluate(model.eval(), split, "cpu")
        for name, value in _leaves(measured):
            numbers[f"{split} {name}"] = torch.tensor(value, dtype=torch.float64)
    return numbers


def _leaves(measured: Evaluation) -> Iterator[tuple[str, Any]]:
    yield from measured.metrics.items()
    yield from measured.per_sequence.items()
    for name, curve in measured.curves.items():
        for axis, values in curve.items():
            yield f"{name}.{axis}", values
    for name, array in measured.arrays.items():
        yield from _numbers_in(name, array)


def _numbers_in(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Nested lists may be ragged, and dictionaries: each number by its place."""
    if isinstance(array, dict):
        for key, value in array.items():
            yield from _numbers_in(f"{name}.{key}", value)
    elif isinstance(array, list):
        for place, value in enumerate(array):
            yield from _numbers_in(f"{name}[{place}]", value)
    elif isinstance(array, int | float):
        yield name, array


def main(words: list[str]) -> int:
    """Answer the request of the file that the command line names."""
    (request,) = words
    answer(TrainingsRequest.model_validate_json(Path(request).read_bytes()))
    return OK


if __name__ == "__main__":
    command(main)
