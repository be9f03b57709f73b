"""Whether a model is a function of its seed, and whether its state dict is all that training makes.

A run is repeated, taken up again after a kill and evaluated by building the model again, seeding
every generator, and loading a state dict. So before training the same is done in small: what is
built twice must be equal, and what is built anew and given the state dict of a model that has made
some passes must go on as that one does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from contextlib import suppress

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from bench.config.settings import Configuration
from bench.examination.elsewhere import ComparedElsewhere
from bench.examination.fresh_process import (
    EVAL_MODE,
    TRAINING_MODE,
    Answers,
    ModelQuestion,
    ModelRecipe,
    NoRoomOnGpu,
    asked_elsewhere,
)
from bench.examination.observing import OUTPUTS, SEQUENCES, STATE, disturb, training_pass
from bench.examination.reader import LARGEST_OUTPUT, ModelReader, offers_hidden
from bench.examination.sequences import CutSequences, SequenceSource
from bench.records.code import is_own
from bench.training.building import build_model, build_to_train
from bench.training.saved_tensors import same_numbers
from bench.training.seeding import kept_random_state, seed_generators
from bench.training.storage import (
    as_safetensors,
    count_parameters,
    examine_storage,
    with_second_names,
)
from bench.training.unfit import UnfitModel, first_names, unfit
from core.seeding import derive_seed
from tasks.interface import Task

POSITIONS = 64  # of a sequence that are looked at
PASSES = 2  # that stand for a training
# Differences of the outputs that are rounding, in units of the last place of the largest output.
# A CPU makes none; a GPU may add in another order each time. What is drawn differs by much more.
ROUNDING_UNITS, LARGEST_ROUNDING = 1000, 0.01
LARGE = 50_000_000  # numbers from which on a model is built twice, not three times, for this
# Python keeps freed objects of up to 512 bytes for the next ones of their size.
LARGEST_OBJECT, OBJECTS_OF_A_SIZE = 480, 1000
COMPARED = 8  # sequences, each with a cut, that two processes are asked for

_examined: dict[str, tuple[str, ...]] = {}  # setting of a model -> buffers that training changes


def examine_configured_model(
    configuration: Configuration, task: Task, device: torch.device
) -> tuple[str, ...]:
    """Refuse a model that its settings, seed and state dict do not make again; asked once in a
    process for each setting of a model, since the rates and seeds of a sweep change nothing of it.

    Returns:
        The names of the buffers that training changes.

    Raises:
        UnfitModel: it cannot be trained, saved or made again; says why.
    """
    key = json.dumps([configuration.models, repr(task.specification()), str(device)])
    changed = _examined.get(key)
    theirs: Answers = {}
    if changed is None:
        seed = configuration.seed
        examine_storage(build_to_train(configuration, task, seed))
        inputs = task.training_batch(seed, 0, SEQUENCES).to(device).inputs
        build = lambda: build_model(configuration, task, seed).to(device)  # noqa: E731
        if is_own(configuration.models["_target_"]):
            changed = examine_repeatability(build, inputs, device)
        else:
            recipe = ModelRecipe(configuration.models, task.specification(), seed)
            reader, sequences = _questions(recipe, inputs, build())
            question = ModelQuestion(sequences.changed, in_training=True, observed=inputs)
            with asked_elsewhere(recipe, reader, question) as answers:
                changed = examine_repeatability(build, inputs, device)
                with suppress(NoRoomOnGpu):  # trained weights can be asked on a CPU
                    theirs = answers()
    devices = configuration.training.devices
    if changed and devices > 1:
        raise unfit("shared buffers", name=changed[0], devices=devices)
    if theirs:
        _compare_processes(recipe, reader, sequences, inputs, theirs)
    _examined[key] = changed
    return changed


def examine_repeatability(
    build: Callable[[], nn.Module], inputs: Tensor, device: torch.device
) -> tuple[str, ...]:
    """Build a model two or three times, and compare.

    Args:
        build: gives the model on ``device`` with the initial weights of one seed.
        inputs: (batch, time) or (batch, time, channels), on ``device``; a few of them are used.

    Returns:
        The names of the buffers that training changes; they are part of the state dict.

    Raises:
        UnfitModel: it is another one each time, or state that training changes is not in its state
            dict; says what.
    """
    with kept_random_state(device):
        return _examine(build, inputs[:SEQUENCES], device)


def _examine(
    build: Callable[[], nn.Module], inputs: Tensor, device: torch.device
) -> tuple[str, ...]:
    model = build()
    taken = _other_addresses()
    same = build()
    del taken
    _refuse_shared_parameters(model, same)
    _refuse_other_weights(model.state_dict(), same.state_dict())
    for built in (model, same):
        disturb(built, 0, device)
    before = {name: b.detach().clone() for name, b in model.named_buffers()}
    short = inputs[:, :POSITIONS]
    try:
        outputs = training_pass(model, short, 0, device)
    except Exception:  # a model may want whole sequences; if not, they raise the same
        short = inputs
        model, same = build(), build()
        for built in (model, same):
            disturb(built, 0, device)
        outputs = training_pass(model, short, 0, device)
    if not _nearly_equal(outputs, training_pass(same, short, 0, device)):
        raise unfit("other outputs")
    after_first = _values(model)
    for number in range(1, PASSES + 1):
        disturb(model, number, device)  # what was computed from the first weights is out of date
        outputs = training_pass(model, short.roll(number, 1), number, device)
        if outputs.requires_grad:
            outputs.float().square().mean().backward()
            _refuse_sparse_gradients(model)
        model.zero_grad(set_to_none=True)
    _refuse_weights_of_a_mode(model)
    state = model.state_dict()
    after = dict(model.named_buffers())
    changed = tuple(name for name in _other(before, after) if name in after and name in state)
    resumed = same if count_parameters(model) > LARGE else build()
    _load_as_from_a_file(resumed, state)
    if not _goes_on_alike(model, resumed, short.roll(PASSES + 1, 1), device):
        raise _lost(_missing_state(after_first, _values(model), state))
    return changed


def _other_addresses() -> list[object]:
    """Small objects in the places that the last ones have left, so that what is made while they
    live has other addresses: a model may start from those, by ``id`` or the text of an object."""
    taken: list[object] = [object() for _ in range(OBJECTS_OF_A_SIZE)]
    for size in range(0, LARGEST_OBJECT, 16):
        taken += [bytes(size) for _ in range(OBJECTS_OF_A_SIZE)]
    return taken


def _refuse_shared_parameters(first: nn.Module, second: nn.Module) -> None:
    """Two models of one process that share what is trained: to train one trains the other."""
    memory = {parameter.untyped_storage()._cdata for parameter in second.parameters()}
    shared = [
        name
        for name, parameter in first.named_parameters()
        if parameter.requires_grad and parameter.untyped_storage()._cdata in memory
    ]
    if shared:
        raise unfit("parameters of another model", names=first_names(shared))


def _refuse_sparse_gradients(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise unfit("sparse gradients", name=name)


def _refuse_other_weights(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    other = _other(first, second)
    other += [name for name in second if name not in first]
    if other:
        raise unfit("other weights", names=first_names(other))


def _questions(
    recipe: ModelRecipe, inputs: Tensor, model: nn.Module
) -> tuple[ModelReader, CutSequences]:
    """What two processes are asked: how, and for which sequences."""
    size, length = recipe.specification.output_size, inputs.shape[1]
    by_hidden = offers_hidden(model) and COMPARED * length * size > LARGEST_OUTPUT
    if not by_hidden:
        length = max(1, min(length, LARGEST_OUTPUT // (COMPARED * size)))
    generator = torch.Generator().manual_seed(derive_seed(recipe.seed, "two processes"))
    source = SequenceSource(inputs[:, :length], recipe.specification, generator)
    return ModelReader(recipe.seed, by_hidden), source.draw(COMPARED, length)


def _compare_processes(
    recipe: ModelRecipe,
    reader: ModelReader,
    sequences: CutSequences,
    inputs: Tensor,
    theirs: Answers,
) -> None:
    """Refuse a model that is another one in the process that gave ``theirs``."""
    device = inputs.device
    with kept_random_state(device):
        question = ModelQuestion(sequences.inputs, in_training=True, observed=inputs)
        ours = question.answered(recipe.built(device), reader)
        theirs = {name: answer.to(device) for name, answer in theirs.items()}
        names = [name for name in ours if name.startswith(STATE)]
        other = _other({name: ours[name] for name in names}, theirs)
        if not other:
            compared = ComparedElsewhere(recipe, recipe.built(device), reader, trained=False)
            for name in (TRAINING_MODE, EVAL_MODE):
                compared.compare(sequences, ours[name], theirs[name], name == TRAINING_MODE)
    if other or not _nearly_equal(ours[OUTPUTS], theirs[OUTPUTS]):
        differing = first_names([name.removeprefix(STATE) for name in other])
        raise unfit("other in a new process", names=differing or "its outputs in training")


def _refuse_weights_of_a_mode(model: nn.Module) -> None:
    """Weights are saved in one mode and loaded in another."""
    state = {name: value.clone() for name, value in model.train().state_dict().items()}
    names = _other(state, model.eval().state_dict())
    model.train()
    if names:
        raise unfit("weights of a mode", names=first_names(names))


def _load_as_from_a_file(model: nn.Module, state: dict[str, Tensor]) -> None:
    """What a run does between training and evaluation."""
    try:
        if count_parameters(model) <= LARGE:
            state = with_second_names(load(as_safetensors(state)), model.state_dict())
        model.load_state_dict(state)
    except (SafetensorError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise unfit("state dict", error=" ".join(lines[:2])[:300]) from error


def _goes_on_alike(
    model: nn.Module, resumed: nn.Module, inputs: Tensor, device: torch.device
) -> bool:
    """Whether both give the same outputs, evaluated and in a further step of training."""
    with torch.no_grad():
        evaluated = []
        for each in (model, resumed):
            seed_generators(0, device)
            evaluated.append(each.eval()(inputs.clone()))
    if not _nearly_equal(*evaluated):
        return False
    return _nearly_equal(
        *(training_pass(each, inputs, PASSES + 1, device) for each in (model, resumed))
    )


def _values(model: nn.Module) -> dict[str, Tensor]:
    """Copies of all tensors that modules hold beside their parameters: buffers and attributes."""
    held = dict(model.named_buffers())
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                held[f"{prefix}.{name}" if prefix else name] = value
    return {name: tensor.detach().clone() for name, tensor in held.items()}


def _missing_state(
    before: dict[str, Tensor], after: dict[str, Tensor], state: Container[str]
) -> list[str]:
    """Names of the tensors that changed and that a state dict lacks."""
    return [name for name in _other(after, before) if name not in state]


def _lost(missing: list[str]) -> UnfitModel:
    """Why a model that is built anew and gets the state dict goes on otherwise."""
    what = f"{first_names(missing)} (a buffer with persistent=False, or an attribute)"
    seen, or_else = "", ""
    if not missing:
        what = "state that is no tensor of the model (a counter, a list or a generator of its own)"
        seen = (
            "a model that is built anew and gets the state dict after some steps gives other "
            "outputs than the one that made them; possible causes: "
        )
        or_else = ", or its outputs depend on the time or on a memory address (id, data_ptr)"
    return unfit("lost state", seen=seen, what=what, or_else=or_else)


def _other(first: dict[str, Tensor], second: dict[str, Tensor]) -> list[str]:
    """Names of tensors that ``second`` does not have, or not with the same numbers."""
    return [name for name in first if name not in second or not _equal(first[name], second[name])]


def _equal(a: Tensor, b: Tensor) -> bool:
    """Bit for bit, but for the kind of NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(same_numbers(a, b).all())


def _nearly_equal(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding; what is no number must be none in both."""
    if a.shape != b.shape:
        return False
    a, b = a.detach(), b.detach()
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    rounding = min(ROUNDING_UNITS * torch.finfo(a.dtype).eps, LARGEST_ROUNDING)
    a, b = a.double(), b.double()
    finite = a.isfinite() & b.isfinite()
    if not _equal(a[~finite], b[~finite]):
        return False
    a, b = a[finite], b[finite]
    if not a.numel():
        return True
    return float((a - b).abs().max()) <= rounding * float(torch.maximum(a.abs(), b.abs()).max())
