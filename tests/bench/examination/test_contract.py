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
from tests.bench.examination.broken import FILE


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
