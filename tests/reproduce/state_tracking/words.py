"""Records of runs that name the states of so many letters, scored by the task itself."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from bench.records.schema import Curve, RunRecord, Study
from tasks.state_tracking import StateTracking
from tests.bench.records import make_record

SIZES: dict[str, Any] = {"length": 16, "factors": [1, 2, 4], "validation_size": 8, "test_size": 256}
RATES = (1e-3, 3e-3, 1e-2)


class Follower(nn.Module):
    """Follows words for ``span`` letters, but for a share of the words ``broken``, whose states it
    misses from their letter ``first`` on; wherever it does not follow, it guesses.

    It knows words by their letters, so that it is the same whatever batch they come in.
    """

    def __init__(self, task: StateTracking, span: int, broken: float = 0.0, first: int = 0) -> None:
        super().__init__()
        self.group, self.span, self.broken, self.first = task.group, span, broken, first

    def forward(self, words: Tensor) -> Tensor:
        states = torch.from_numpy(self.group.products(words.numpy()))
        for word, named in zip(words, states, strict=True):
            digest = hashlib.sha256(word.numpy().tobytes()).digest()
            is_broken = int.from_bytes(digest[:4], "big") < self.broken * 2**32
            start = min(self.span, self.first) if is_broken else self.span
            generator = torch.Generator().manual_seed(int.from_bytes(digest[4:12], "big") >> 1)
            count = len(word) - start
            if count > 0:
                named[start:] = torch.randint(self.group.order, (count,), generator=generator)
        return 30 * nn.functional.one_hot(states, self.group.order).float()


def scored(
    task: StateTracking, follower: nn.Module, seed: int, model: str, **changes: Any
) -> RunRecord:
    """The record of a run of three rates, at ``laptop``, that ended with this follower.

    Args:
        changes: ``tasks``, ``models`` and ``training`` are added to the configuration; others
            replace fields.
    """
    evaluation = task.evaluate(follower, "test", "cpu")
    config = {
        "tasks": {**SIZES, **changes.pop("tasks", {})},
        "models": changes.pop("models", {}),
        "training": {"steps": 1, "lr": RATES[1], **changes.pop("training", {})},
    }
    steps = config["training"]["steps"]
    losses = Curve(x=[share * steps / 20 for share in range(1, 21)], y=[2.0] + [0.5] * 19)
    curves = {name: Curve(**curve) for name, curve in evaluation.curves.items()}
    trials = [
        {"number": number, "parameters": {"training.lr": rate}, "value": value, "outcome": "ok"}
        for number, (rate, value) in enumerate(zip(RATES, (0.4, 0.9, 0.7), strict=True))
    ]
    study = Study(
        name="three rates",
        sampler="grid",
        optuna="5",
        search_space={"training.lr": list(RATES)},
        selected_by="accuracy on validation",
        trials=trials,
    )
    return make_record(
        task="state_tracking",
        model=model,
        label=model,
        preset="laptop",
        role="final",
        seed=seed,
        identity=hashlib.sha256(repr((model, config)).encode()).hexdigest(),
        metrics={"test": evaluation.metrics},
        per_sequence=evaluation.per_sequence,
        curves={"validation_loss": losses, "training_loss": losses, **curves},
        config=config,
        study=study,
        **changes,
    )
