"""Tasks of somebody else that no model can be trained on: each is one sentence, and no record."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench import sweep, train
from bench.examination import task_data
from bench.records.schema import read_records
from core.errors import OK, UserError
from tests.configurations import compose

FILE = '''
import random

import numpy as np
import torch
from models.specification import SequenceSpecification
from tasks.generated import GeneratedTask
from tasks.interface import Batch, Evaluation, Metric, Task


class Honest(GeneratedTask):
    vocabulary, length, evaluation_sequences = 5, 6, 8
    presets = {"smoke": {"training": {"steps": 2, "batch_size": 4}, "models": {"width": 8}}}

    def draw(self, generator, count):
        tokens = self.numbers(generator, count)
        return tokens, tokens

    def numbers(self, generator, count):
        return generator.integers(0, 5, (count, 6))


class OfNumpy(Honest):
    def numbers(self, generator, count):
        return np.random.randint(0, 5, (count, 6))


class OfPython(Honest):
    def numbers(self, generator, count):
        return np.array([[random.randrange(5) for _ in range(6)] for _ in range(count)])


class OfTorch(Honest):
    def numbers(self, generator, count):
        return torch.randint(0, 5, (count, 6))


class TableOfNumpy(Honest):
    def __init__(self):
        super().__init__()
        self.table = np.random.randint(0, 5, 5)

    def numbers(self, generator, count):
        return self.table[super().numbers(generator, count)]


class Counting(Honest):
    calls = 0

    def numbers(self, generator, count):
        self.calls += 1
        return (super().numbers(generator, count) + self.calls) % 5


class OnceSeeded(Honest):
    """Honest: what it draws from is seeded by what it is given."""

    def numbers(self, generator, count):
        np.random.seed(generator.integers(2**31))
        return np.random.randint(0, 5, (count, 6))


class Stops(Honest):
    def numbers(self, generator, count):
        return {}["tokens"]


class Predicting(Honest):
    def predictors(self):
        return {"oracle": lambda batch: batch.no_such_thing}


class NoDraw(GeneratedTask):
    vocabulary, length = 5, 6
    presets = Honest.presets


class NoSizes(Honest):
    vocabulary = None


class OtherHeadline(Honest):
    headline = Metric("at_end", "maximise")


class Ours(Task):
    """A task by the whole contract, of which parts below do something else."""

    headline = Metric("accuracy", "maximise")
    presets = Honest.presets
    measured = {"loss": 1.0, "accuracy": 0.5}

    def specification(self):
        return SequenceSpecification(6, vocabulary=5)

    def data_hashes(self):
        return dict.fromkeys(("train", "validation", "test"), "0" * 64)

    def training_batch(self, seed, step, size):
        tokens = torch.full((size, 6), (seed + step) % 5)
        return Batch(tokens, tokens, tokens.numel())

    def loss(self, outputs, batch):
        return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model, split, device):
        model(self.training_batch(0, 0, 2).inputs.to(device))
        return Evaluation(dict(self.measured))


class NoBatch(Ours):
    def training_batch(self, seed, step, size):
        return torch.zeros(size, 6, dtype=torch.int64)


class Beyond(Ours):
    def training_batch(self, seed, step, size):
        tokens = torch.full((size, 6), 5)
        return Batch(tokens, tokens, tokens.numel())


class OneTarget(Ours):
    def training_batch(self, seed, step, size):
        tokens = torch.zeros(size, 6, dtype=torch.int64)
        return Batch(tokens, tokens[:, 0], tokens.numel())


class Ignoring(Ours):
    def training_batch(self, seed, step, size):
        tokens = torch.zeros(size, 6, dtype=torch.int64)
        return Batch(tokens, tokens - 100, tokens.numel())


class OtherHashes(Ours):
    def data_hashes(self):
        return {**super().data_hashes(), "test": f"{random.getrandbits(256):064x}"}


class NoLoss(Ours):
    measured = {"accuracy": 0.5}


class OfTensors(Ours):
    measured = {"loss": torch.tensor(1.0), "accuracy": torch.tensor(0.5)}


class NothingOnTest(Ours):
    def evaluate(self, model, split, device):
        return super().evaluate(model, split, device) if split == "validation" else None


class NoMetrics(Ours):
    measured = {"loss": 1.0, "accuracy": 0.5}

    def evaluate(self, model, split, device):
        super().evaluate(model, split, device)
        return Evaluation([1.0])


class SilentPredictor(Ours):
    def baselines(self):
        return {"oracle": lambda split: None}


class SilentTest(Ours):
    def evaluate(self, model, split, device):
        measured = super().evaluate(model, split, device)
        if split == "test":
            measured.metrics["accuracy"] = float("nan")
        return measured
'''
# Sources for whose sake data are made in another process too.
DRAWN = '''
import numpy as np
from unfit import Honest

IMPORTED = np.random.default_rng(0)


class Unseeded(Honest):
    def numbers(self, generator, count):
        return np.random.default_rng().integers(0, 5, (count, 6))


class Kept(Honest):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def numbers(self, generator, count):
        return self.generator.integers(0, 5, (count, 6))


class OfModule(Honest):
    def numbers(self, generator, count):
        return IMPORTED.integers(0, 5, (count, 6))


class SetOrder(Honest):
    """Characters, numbered in the order of a set."""

    def numbers(self, generator, count):
        letters = list(set("abcdefghijklmnopqrstuvwxyz"))
        return np.array([ord(letter) % 5 for letter in letters])[
            generator.integers(0, 26, (count, 6))
        ]
'''
MADE_AGAIN = "are others when they are made again"


@pytest.fixture
def here(tmp_path: Path, unknown_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unfit.py").write_text(FILE)
    (tmp_path / "drawn.py").write_text(DRAWN)
    yield tmp_path
    for name in ("unfit", "drawn"):
        sys.modules.pop(name, None)


def words(task: str) -> list[str]:
    file = "drawn.py" if f"class {task}(" in DRAWN else "unfit.py"
    return [f"tasks=./{file}:{task}", "models=lstm", "preset=smoke", "device=cpu"]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("OfNumpy", MADE_AGAIN),
        ("OfPython", MADE_AGAIN),
        ("OfTorch", MADE_AGAIN),
        ("Unseeded", MADE_AGAIN),
        ("Kept", MADE_AGAIN),
        ("OfModule", MADE_AGAIN),
        ("TableOfNumpy", MADE_AGAIN),
        ("Counting", MADE_AGAIN),
        ("SetOrder", rf"{MADE_AGAIN} in another process.*sorted\("),
        ("Stops", r"unfit.py, line \d+ stops with KeyError \('tokens'\): mend it there"),
        ("NoDraw", "abstract class NoDraw .*draw.*: add to that class what is missing in it"),
        ("NoSizes", "NoSizes has no sizes: a task has a vocabulary"),
        ("OtherHeadline", r"no metric at_end \(metrics: accuracy, loss\)"),
        ("NoBatch", "training_batch gave a Tensor: return a Batch"),
        ("Beyond", "the token 5: the specification says vocabulary=5, so tokens are 0 to 4"),
        ("OneTarget", r"targets of shape \(8,\) .*one for each position"),
        ("Ignoring", "ask for nothing, since every target is -100"),
        ("OtherHashes", f"the data of 'test' {MADE_AGAIN}"),
        ("NoLoss", r"no metric loss \(metrics: accuracy\)"),
        ("NothingOnTest", "evaluate gave None for the test split: return an Evaluation"),
        ("NoMetrics", r"an Evaluation with metrics=\[1.0\] for the validation split: give a dict"),
        ("OfTensors", r"the metric loss as a Tensor: give a plain number, float"),
    ],
)
def test_what_no_model_can_be_trained_on_is_refused_before_it_is(
    task: str, said: str, here: Path
) -> None:
    with pytest.raises(UserError, match=rf"tasks \(\w+\.py:{task}\): .*{said}") as refusal:
        train.main(words(task))
    assert "\n" not in str(refusal.value)
    assert not list(here.rglob("records/*.json"))
    assert not list(here.rglob("weights.safetensors"))


@pytest.mark.parametrize("task", ["Honest", "OnceSeeded", "Ours"])
def test_honest_tasks_are_trained_on(task: str, here: Path) -> None:
    assert train.main(words(task)) == OK


def test_a_split_that_gives_no_number_has_no_row_that_went_well(here: Path) -> None:
    assert train.main(words("SilentTest")) == 1
    (record,) = read_records([Path("runs/records")])
    assert record.outcome == "failed"
    assert "no number accuracy on the test split" in str(record.cause)


def test_a_sweep_refuses_the_task_before_its_first_trial(here: Path) -> None:
    with pytest.raises(UserError, match=MADE_AGAIN):
        sweep.main([*words("OfNumpy"), "n_trials=1", "seeds=1", "workers=0"])
    assert not list(here.rglob("records/*.json"))


def test_a_predictor_that_stops_is_a_sentence(here: Path) -> None:
    with pytest.raises(UserError, match=r"unfit.py, line \d+ stops with AttributeError"):
        train.main([*words("Predicting")[:1], "predictors=true", "preset=smoke"])


def test_a_predictor_that_gives_no_evaluation_is_a_sentence(here: Path) -> None:
    with pytest.raises(UserError, match="the predictor oracle gave None for the validation split"):
        train.main([*words("SilentPredictor")[:1], "predictors=true", "preset=smoke"])


def test_examining_a_task_moves_no_generator_and_is_done_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = compose(words("Honest"))
    before = torch.get_rng_state()
    hashes = task_data.examined_data_hashes(configuration)
    assert torch.equal(before, torch.get_rng_state())
    monkeypatch.setattr(task_data, "examine_task", None)  # a second time would call it
    assert task_data.examined_data_hashes(configuration) == hashes
