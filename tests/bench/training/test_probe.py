"""A model that breaks the contract gets no training, whichever package it comes from."""

import pytest
import torch
from torch import Tensor, nn

from bench.training.building import build_model, build_task
from bench.training.probe import probe
from bench.training.unfit import UnfitModel
from settings.config import compose, models_of
from settings.groups import choices


class _Model(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.embedding = kind, nn.Embedding(20, 20)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embedding(inputs)
        if self.kind == "mean of all":
            return hidden + hidden.mean(1, keepdim=True)
        if self.kind == "next token":
            return torch.roll(hidden, -1, dims=1)
        if self.kind == "dropout without a mode":
            return nn.functional.dropout(hidden, 0.1)
        if self.kind == "keeps its last state":
            last, self.last = getattr(self, "last", 0.0), hidden[:, -1:].detach()
            return hidden + last
        return hidden[:, -1] if self.kind == "last only" else hidden


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("mean of all", "sees the future"),
        ("next token", "sees the future"),
        ("dropout without a mode", "the same inputs again: either it draws at random"),
        ("keeps its last state", "keeps something from one call to the next"),
        ("last only", r"forward gave \(2, 20\) .* \(2, \d+, 20\)"),
    ],
)
def test_a_leak_or_a_wrong_shape_is_told(kind: str, sentence: str) -> None:
    task = build_task(compose(["tasks=regbench", "models=gpt2"]))
    batch = task.training_batch(0, 0, 4)
    with pytest.raises(UnfitModel, match=sentence):
        probe(_Model(kind), task, batch)
    probe(_Model("honest"), task, batch)


@pytest.mark.parametrize("task_name", [t for t in choices("tasks") if models_of(t) == "models"])
def test_the_models_that_a_task_lists_are_fit(task_name: str) -> None:
    for name in compose([f"tasks={task_name}", "models=gpt2"]).sweep.models:
        configuration = compose([f"tasks={task_name}", f"models={name}"])
        task = build_task(configuration)
        model = build_model(configuration, task, 0).train()
        probe(model, task, task.training_batch(0, 0, 2))
        assert model.training
