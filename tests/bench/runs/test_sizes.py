"""What is remembered of a model before its training: nothing that another run could have."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import bench
from bench.examination.examined import Examined
from bench.runs import sizes
from bench.training.building import build_model, build_task
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.examination.generated import Guest, ahead
from tests.configurations import compose

GENERATED = "tests.bench.examination.generated"
SHORT = ["tasks=state_tracking", "preset=smoke", "training.warmup_steps=1", "training.steps=4"]
CPU = torch.device("cpu")


class SomeSeedsPeek(Guest):
    """Sees the next position where its first random number is small."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.peeks = float(torch.rand(())) < 0.5

    def added(self, vectors: Tensor) -> Tensor:
        return self.peeks * ahead(vectors)


def examined(*words: str) -> Examined:
    configuration = compose([*SHORT, *words])
    return sizes.examined_and_counted(configuration, build_task(configuration), CPU)[1]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are examined, each time that one really is."""
    monkeypatch.setattr(sizes, "_examined", {})
    models: list[str] = []
    really: Callable[..., Examined] = sizes.examine_fresh

    def noted(model: torch.nn.Module, *rest: object) -> Examined:
        models.append(type(model).__name__)
        return really(model, *rest)

    monkeypatch.setattr(sizes, "examine_fresh", noted)
    return models


def test_a_model_is_examined_once_for_all_rates_and_anew_for_anything_else(
    asked: list[str],
) -> None:
    own = ["models=lstm", "models.width=8"]
    first = examined(*own, "training.lr=0.1")
    assert examined(*own, "training.lr=0.2", "training.weight_decay=0.3") == first
    assert len(asked) == 1
    first.passed.clear()  # what a run does with its own is its own
    assert examined(*own).passed
    others = [
        ["seed=1"],
        ["models.width=16"],
        ["tasks.data_seed=1"],
        ["training.batch_size=3"],
        ["training.steps=5"],
    ]
    for number, other in enumerate(others, 2):
        examined(*own, *other)
        assert len(asked) == number, other
    examined("models=gpt2", "models.width=8", "models.heads=1")
    assert asked[-1] == "GPT2"


def test_a_fault_of_one_setting_is_found_after_others_have_passed(asked: list[str]) -> None:
    model = f"models={GENERATED}.InBlocks"
    assert examined(model, "models.strength=0.0").passed
    for _ in range(2):  # what was refused is asked again
        with pytest.raises(UnfitModel, match="sees the future"):
            examined(model, "models.strength=0.5")
    assert len(asked) == 3


def test_a_fault_of_one_seed_is_found_after_others_have_passed(asked: list[str]) -> None:
    outcomes = set()
    for seed in range(8):
        words = [f"models={__name__}.SomeSeedsPeek", f"seed={seed}"]
        configuration = compose([*SHORT, *words])
        model = build_model(configuration, build_task(configuration), seed)
        assert isinstance(model, SomeSeedsPeek)
        outcomes.add(model.peeks)
        if model.peeks:
            with pytest.raises(UnfitModel, match="sees the future"):
                examined(*words)
        else:
            assert examined(*words).passed
    assert outcomes == {False, True}


NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, specification):
        super().__init__()
        self.embedding = nn.Embedding(specification.vocabulary, 8)
        self.out = nn.Linear(8, specification.output_size)

    def forward(self, inputs):
        vectors = self.embedding(inputs)
        return self.out(vectors)
"""


def test_a_file_that_is_edited_is_examined_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a_net_to_edit.py"
    settings = {"training.steps": 2, "training.warmup_steps": 1}

    def outcome() -> str:
        word = "./a_net_to_edit.py:Net"
        return bench.run("state_tracking", word, settings=settings, quiet=True).outcome

    file.write_text(NET)
    assert outcome() == "ok"
    file.write_text(NET.replace("out(vectors)", "out(vectors + vectors.flip(1))"))
    assert outcome() == "failed"
