"""What a run is before it is trained: whether its model may be, and how large it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch

from bench.config.external import load_class
from bench.config.settings import Configuration
from bench.examination.answers import examine_interface
from bench.examination.examined import Examined
from bench.records.code import code_hash
from bench.records.schema import Cost
from bench.runs.examined import examine_fresh
from bench.training.building import build_to_train
from bench.training.flops import count_training_flops, typical_batch
from bench.training.numerics import kept_settings
from bench.training.storage import count_parameters, examine_storage
from bench.training.training import total_steps, training_loss_of
from tasks.interface import Batch, Task

RATES = ("lr", "weight_decay")  # of an optimiser, which no fresh model and no batch depends on

_examined: dict[tuple[object, str], tuple[Cost, Examined]] = {}  # what decides both -> them


def count_cost(configuration: Configuration, task: Task, device: torch.device) -> Cost:
    """Sizes of the model of a configuration, and its FLOPs for one padded position of a batch.

    Raises:
        UserError: the model cannot be built.
        UnfitModel: it does not do what a sequence model must.
    """
    cost, _ = examined_and_counted(configuration, task, device)
    return cost


def examined_and_counted(
    configuration: Configuration, task: Task, device: torch.device
) -> tuple[Cost, Examined]:
    """The same, with what the model has passed before its training.

    Once in a process for each model as it begins: trials that differ in nothing but a rate of the
    optimiser begin with the same bits, and are asked on the same batch. Another seed, setting of
    the model, the task or the training, or other code is another model. What was refused is not
    remembered, and trained weights are examined in every run.
    """
    training = configuration.training
    steps = total_steps(task, training)
    batch = typical_batch(task, configuration.seed, training.batch_size, steps).to(device)
    key = _what_decides(configuration, batch, device)
    if key not in _examined:
        _examined[key] = _examine_and_count(configuration, task, batch, device)
    cost, examined = _examined[key]
    return cost, replace(examined, passed=[*examined.passed], unused=[*examined.unused])


def _what_decides(
    configuration: Configuration, batch: Batch, device: torch.device
) -> tuple[object, str]:
    """All that a model before its training, and its examination, follow from: its class and a text
    that holds the rest."""
    settings = configuration.resolved()
    settings["training"] = {k: v for k, v in settings["training"].items() if k not in RATES}
    settings["tasks"] = configuration.tasks  # with where data lie on this machine
    targets = [str(part["_target_"]) for part in (configuration.models, configuration.tasks)]
    codes = [code_hash(target) for target in targets]
    digest = hashlib.sha256()
    for tensor in (batch.inputs, batch.targets, *batch.extras.values()):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    parts = [settings, configuration.seed, str(device), codes, digest.hexdigest()]
    with kept_settings():  # whatever its import does
        model_class = load_class(targets[0])
    return model_class, repr(parts)


def _examine_and_count(
    configuration: Configuration, task: Task, batch: Batch, device: torch.device
) -> tuple[Cost, Examined]:
    """The cost and the examination of a model that is built for it, whatever was examined
    before."""
    model = build_to_train(configuration, task, configuration.seed)
    examine_interface(model)
    examine_storage(model)  # an examination moves parameters, which overlapping ones do not allow
    model = model.to(device).train()
    examined = examine_fresh(model, task, batch, configuration)
    size = configuration.training.batch_size
    loss = training_loss_of(task, model, configuration.seed, size)
    flops = count_training_flops(model, batch, loss)
    length = task.specification().maximum_length
    state_bytes = getattr(model, "state_bytes", None)
    cost = Cost(
        parameters=count_parameters(model),
        position_parameters=getattr(model, "position_parameters", int)(),
        state_bytes=state_bytes(length) if state_bytes else None,
        state_length=length if state_bytes else None,
        training_flops=flops / (batch.inputs.shape[0] * batch.inputs.shape[1]),
    )
    return cost, examined
