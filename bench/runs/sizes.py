"""What a run is before it is trained: whether its model may be, and how large it is."""

from __future__ import annotations

import torch

from bench.config.settings import Configuration
from bench.examination.examination import Examined
from bench.records.schema import Cost
from bench.runs.examined import examine_fresh
from bench.training.building import build_to_train
from bench.training.flops import count_training_flops, typical_batch
from bench.training.storage import count_parameters, examine_storage
from bench.training.training import total_steps
from tasks.interface import Task


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
    """The same, with what the model has passed before its training."""
    seed = configuration.seed
    model = build_to_train(configuration, task, seed)
    examine_storage(model)  # an examination moves parameters, which overlapping ones do not allow
    model = model.to(device).train()
    training = configuration.training
    steps = total_steps(task, training)
    batch = typical_batch(task, seed, training.batch_size, steps).to(device)
    examined = examine_fresh(model, task, batch, configuration)
    flops = count_training_flops(model, batch, task.training_loss)
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
