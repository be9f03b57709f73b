"""Tasks of somebody else that break the contract of a task: told of the task, before a training."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from bench import train
from bench.config.outside_tasks import fault_of_headline
from bench.examination.contract.small_model import SmallModel, stopped_within
from bench.records.schema import read_records
from core.errors import OK, UserError
from models.specification import SequenceSpecification
from tasks.interface import Metric

FILE = '''
import os
import time

import numpy as np
import torch
from models.specification import SequenceSpecification
from tasks.generated import GeneratedTask
from tasks.interface import Batch, Evaluation, Metric, Task
from torch.nn.functional import cross_entropy


class Drawn(GeneratedTask):
    channels, classes, length, evaluation_sequences = 2, 3, 6, 8
    presets = {"smoke": {"training": {"steps": 2, "batch_size": 4}, "models": {"width": 8}}}

    def draw(self, generator, count):
        values = generator.normal(size=(count, 6, 2))
        return values, (values.cumsum(1).sum(-1) > 0).astype(int)

    def metrics(self, answers, targets, asked):
        return {"accuracy": self.changed((answers.argmax(-1) == targets).float().mean(1))}

    def changed(self, right):
        return right


class NoDirection(Drawn):
    headline = Metric("accuracy", None)


class OtherDirection(Drawn):
    headline = Metric("accuracy", "up")


class TextHeadline(Drawn):
    headline = "accuracy"


class LateHeadline(Drawn):
    def __init__(self):
        super().__init__()
        self.headline = Metric("accuracy", "max")


class NanMetric(Drawn):
    def changed(self, right):
        return right / 0 * 0


class FloatMetric(Drawn):
    def changed(self, right):
        return float(right.mean())


class ArrayMetric(Drawn):
    def changed(self, right):
        return right.numpy()


class SystemMetric(Drawn):
    def changed(self, right):
        return right + os.urandom(1)[0]


class ClockMetric(Drawn):
    def changed(self, right):
        return right + time.time_ns() % 1000 / 1000


class CountingMetric(Drawn):
    calls = 0

    def changed(self, right):
        self.calls += 1
        return right + self.calls


class GeneratorMetric(Drawn):
    """Honest: PyTorch's generator has one seed in each evaluation."""

    def changed(self, right):
        return right * torch.rand(len(right), device=right.device)


class Whole(Task):
    """Honest: a task by the whole contract, of which parts below do something else."""

    headline = Metric("accuracy", "maximise")
    presets = Drawn.presets

    def specification(self):
        return SequenceSpecification(6, input_channels=2, output_channels=3)

    def data_hashes(self):
        return dict.fromkeys(("train", "validation", "test"), "0" * 64)

    def channels(self, count, seed):
        generator = np.random.Generator(np.random.Philox(seed))
        return torch.from_numpy(generator.normal(size=(count, 6, 2))).float()

    def classes(self, channels):
        return (channels.sum(-1) > 0).long()

    def training_batch(self, seed, step, size):
        channels = self.channels(size, 1000 * seed + step)
        return Batch(channels, self.classes(channels), size * 6)

    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model, split, device):
        channels = self.channels(8, 10**6 + (split == "test")).to(device)
        outputs = model(channels)
        right = (outputs.argmax(-1) == self.classes(channels)).float().mean(1).tolist()
        loss = float(cross_entropy(outputs.flatten(0, 1), self.classes(channels).long().flatten()))
        return Evaluation({"loss": loss, "accuracy": sum(right) / 8}, {"accuracy": right})


class IntTargets(Whole):
    def classes(self, channels):
        return super().classes(channels).int()


class IntTargetsMended(IntTargets):
    """Honest: its loss takes its targets."""

    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten().long())


class TargetBeyond(Whole):
    def classes(self, channels):
        return super().classes(channels) + 2


class Doubles(Whole):
    def channels(self, count, seed):
        return super().channels(count, seed).double()


class NanChannels(Whole):
    def channels(self, count, seed):
        return super().channels(count, seed).masked_fill(torch.eye(6, 2).bool(), float("nan"))


class NanTargets(Whole):
    """Honest: its loss leaves them out."""

    def training_batch(self, seed, step, size):
        channels = self.channels(size, 1000 * seed + step)
        targets = channels[..., :1].masked_fill(channels[..., 1:] > 0, float("nan"))
        return Batch(channels, targets, size * 6)

    def loss(self, outputs, batch):
        asked = batch.targets.isfinite()
        return (outputs[..., :1] - batch.targets)[asked].square().mean()


class NanGradient(NanTargets):
    def loss(self, outputs, batch):
        return (outputs[..., :1] - batch.targets).square().nanmean()


class NanTargetsAsked(NanTargets):
    def loss(self, outputs, batch):
        return (outputs[..., :1] - batch.targets).square().mean()


class CountlessTokens(Whole):
    def training_batch(self, seed, step, size):
        batch = super().training_batch(seed, step, size)
        return Batch(batch.inputs, batch.targets, torch.tensor(size * 6))


class NoLoss(Whole):
    def loss(self, outputs, batch):
        super().loss(outputs, batch)


class VectorLoss(Whole):
    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten(), reduction="none")


class DetachedLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch).detach()


class BlindLoss(Whole):
    weight = torch.nn.Parameter(torch.ones(()))

    def loss(self, outputs, batch):
        return self.weight * batch.targets.float().mean()


class NanLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch) * float("nan")


class SystemLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch) * (1 + os.urandom(1)[0])


class StoppingLoss(Whole):
    def loss(self, outputs, batch):
        return {}["weights"]


class OwnLoss(Whole):
    """Honest: a loss that needs no outputs of a whole batch at once."""

    def training_loss(self, model, batch):
        outputs = model.hidden(batch.inputs) @ model.output_matrix.T
        return self.loss(outputs, batch)

    def loss(self, outputs, batch):
        return super().loss(outputs, batch)


class OwnValidation(Whole):
    def validation_loss(self, model, device):
        return super().validation_loss(model, device) + os.urandom(1)[0]


class TrainingMode(Whole):
    def evaluate(self, model, split, device):
        return super().evaluate(model.train(), split, device)


class Fitting(Whole):
    def evaluate(self, model, split, device):
        for parameter in model.parameters():
            parameter += 1
        return super().evaluate(model, split, device)


class Noisy(Whole):
    """Honest: other weights for as long as it measures."""

    def evaluate(self, model, split, device):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        for parameter in model.parameters():
            parameter += 1
        measured = super().evaluate(model, split, device)
        model.load_state_dict(before)
        return measured


class Longer(Whole):
    def evaluate(self, model, split, device):
        model(torch.zeros(2, 7, 2, device=device))
        return super().evaluate(model, split, device)


class DoublesMeasured(Whole):
    def evaluate(self, model, split, device):
        model(torch.zeros(2, 6, 2, device=device, dtype=torch.float64))
        return super().evaluate(model, split, device)


class StoppingProtocol(Whole):
    def evaluate(self, model, split, device):
        return super().evaluate(model, split, device).metrics["recall"]


class CurveOfPairs(Whole):
    def evaluate(self, model, split, device):
        measured = super().evaluate(model, split, device)
        return Evaluation(measured.metrics, curves={"accuracy": [[1.0, 0.5]]})


class OneForAll(Whole):
    def evaluate(self, model, split, device):
        measured = super().evaluate(model, split, device)
        return Evaluation(measured.metrics, per_sequence={"accuracy": 0.5})


class Guessing(Whole):
    def baselines(self):
        def guess(split):
            right = np.random.rand(8).tolist()
            return Evaluation({"loss": 1.0, "accuracy": sum(right) / 8}, {"accuracy": right})

        return {"guess": guess}


class Seldom(Whole):
    """A target that no model has, in a late batch."""

    def training_batch(self, seed, step, size):
        batch = super().training_batch(seed, step, size)
        return Batch(batch.inputs, batch.targets + 3 * (step > 5), batch.tokens)
'''


@pytest.fixture
def here(tmp_path: Path, unknown_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(FILE)
    yield tmp_path
    sys.modules.pop("broken", None)


def words(task: str) -> list[str]:
    return [f"tasks=./broken.py:{task}", "models=lstm", "preset=smoke", "device=cpu"]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("NoDirection", "the direction of its headline is None: .* to maximise or to minimise"),
        ("OtherDirection", "the direction of its headline is 'up'"),
        ("TextHeadline", r"its headline is 'accuracy', and no Metric: give Metric\(\"accuracy"),
        ("LateHeadline", "the direction of its headline is 'max'"),
        ("NanMetric", "evaluate gave nan in per_sequence.accuracy for the validation split"),
        ("FloatMetric", "metrics gave accuracy of type float: give a tensor"),
        ("ArrayMetric", "metrics gave accuracy of type ndarray: give a tensor"),
        ("SystemMetric", r"metrics.accuracy [\d.e-]+ and then .* for the same outputs"),
        ("ClockMetric", r"metrics.accuracy [\d.e+-]+ and then .* for the same outputs"),
        ("CountingMetric", r"metrics.accuracy [\d.]+ and then .* for the same outputs"),
        ("IntTargets", "targets of type torch.int32: give int64"),
        ("TargetBeyond", "the target 3: .* 3 outputs, so targets are 0 to 2, or -100"),
        ("Doubles", r"type torch.float64: the specification says .*give float32 \(batch, time, 2"),
        ("NanChannels", "has nan among its inputs: give finite numbers"),
        ("NanTargetsAsked", "has nan among its targets, and its loss is nan: give finite targets"),
        ("NanGradient", r"its loss is [\d.]+, and its gradient .* is nan"),
        ("CountlessTokens", "has tokens of type Tensor: give a whole number"),
        ("NoLoss", "its loss is None: return a mean over what is asked for"),
        ("VectorLoss", r"its loss is a tensor of shape \(48,\) and type torch.float32: return"),
        ("DetachedLoss", "its loss has no gradient at the outputs of a model"),
        ("BlindLoss", "its loss has no gradient at the outputs of a model"),
        ("NanLoss", "its loss is nan in each of the first 4 batches"),
        ("SystemLoss", r"its loss was [\d.]+ and then [\d.]+ for the same outputs"),
        ("StoppingLoss", r"broken.py, line \d+ stops with KeyError \('weights'\): mend it there"),
        ("OwnValidation", r"validation_loss was [\d.e+-]+ and then [\d.e+-]+ for one model"),
        ("TrainingMode", "puts the model into training mode"),
        ("Fitting", "changes the weights of the model that it measures"),
        ("Longer", r"evaluate gives the model has inputs of shape \(2, 7, 2\).*maximum_length=6"),
        ("DoublesMeasured", "evaluate gives the model has inputs .* type torch.float64"),
        ("StoppingProtocol", r"broken.py, line \d+ stops with KeyError \('recall'\): mend it"),
        ("CurveOfPairs", r"evaluate gave curves=.* which no record can hold .*\"x\": \["),
        ("OneForAll", r"evaluate gave per_sequence=.* which no record can hold"),
    ],
)
def test_a_task_that_breaks_its_contract_is_refused_before_a_training(
    task: str, said: str, here: Path
) -> None:
    with pytest.raises(UserError, match=rf"tasks \(\w+\.py:{task}\): .*{said}") as refusal:
        train.main(words(task))
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code
    assert not list(here.rglob("records/*.json"))
    assert not list(here.rglob("weights.safetensors"))


@pytest.mark.parametrize(
    "task",
    ["Drawn", "GeneratorMetric", "Whole", "IntTargetsMended", "NanTargets", "OwnLoss", "Noisy"],
)
def test_honest_tasks_are_trained_on(task: str, here: Path) -> None:
    model = "gpt2" if task == "OwnLoss" else "lstm"
    assert train.main([*words(task), f"models={model}"]) == OK
    (record,) = read_records([Path("runs/records")])
    assert record.outcome == "ok"


def test_a_predictor_that_guesses_anew_each_time_has_no_record(here: Path) -> None:
    with pytest.raises(UserError, match=r"the predictor guess gave metrics.accuracy .* and then"):
        train.main([*words("Guessing")[:1], "predictors=true", "preset=smoke"])
    assert not list(here.rglob("records/*.json"))


def test_a_late_fault_of_a_task_is_not_said_of_the_model(here: Path) -> None:
    assert train.main([*words("Seldom"), "training.steps=9"]) == 1
    (record,) = read_records([Path("runs/records")])
    assert record.outcome == "failed"
    assert str(record.cause).startswith("tasks (broken.py:Seldom): IndexError: ")


def test_a_headline_is_a_name_a_direction_and_a_unit() -> None:
    assert fault_of_headline(Metric("error", "minimise", "bits")) is None
    assert "no headline" in str(fault_of_headline(None))
    assert "the name of its headline is ''" in str(fault_of_headline(Metric("", "minimise")))
    assert "the unit of its headline is None" in str(
        fault_of_headline(Metric("error", "minimise", None))  # type: ignore[arg-type]
    )


def test_an_error_within_a_model_is_told_from_one_of_its_caller() -> None:
    model = SmallModel(SequenceSpecification(4, vocabulary=3))
    others = nn.Linear(2, 2)
    errors = []
    for call in (
        lambda: model(torch.full((1, 4), 3)),
        lambda: model.prefill(torch.zeros(1, 4)),  # type: ignore[operator]
        lambda: others(torch.zeros(3)),
        lambda: {}["model"],
    ):
        with pytest.raises(Exception, match=r".") as caught:
            call()
        errors.append(stopped_within(caught.value, model))
    assert errors == [True, True, False, False]
    assert "token 3" in model.fault
