"""PyTorch's settings of a whole process, which a model of somebody else may change."""

import numpy as np
import pytest
import torch

from bench.training import numerics
from bench.training.building import build_model, build_task
from bench.training.numerics import SETTINGS, kept_settings
from core.errors import UserError
from models.specification import SequenceSpecification
from tests.configurations import compose

OTHER_VALUES = {
    "default type": torch.float64,
    "default device": torch.device("meta"),
    "gradients": False,
    "threads": 3,
    "deterministic algorithms": True,
    "precision of products": "medium",
    "anomaly detection": True,
    "autocast": True,
    "autocast of GPUs": True,
    "open function modes": 2,
    "open dispatch modes": 1,
}
FLAGS = ("TF32 of cuDNN", "benchmark of cuDNN", "determinism of cuDNN")


class Linear(torch.nn.Module):
    """A model of somebody else."""

    def __init__(self, specification: SequenceSpecification, width: int = 4) -> None:
        super().__init__()
        assert specification.vocabulary is not None
        self.embedding = torch.nn.Embedding(specification.vocabulary, width)
        self.read_out = torch.nn.Linear(width, specification.output_size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.read_out(self.embedding(inputs))
        return outputs


class OfDouble(Linear):
    def __init__(self, specification: SequenceSpecification) -> None:
        torch.set_default_dtype(torch.float64)
        super().__init__(specification)


class OnAnotherDevice(Linear):
    def __init__(self, specification: SequenceSpecification) -> None:
        torch.set_default_device("meta")
        super().__init__(specification)


class OfTwoThreads(Linear):
    def __init__(self, specification: SequenceSpecification) -> None:
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.use_deterministic_algorithms(True)
        super().__init__(specification)


class OfOneSeed(Linear):
    def __init__(self, specification: SequenceSpecification) -> None:
        torch.manual_seed(0)
        super().__init__(specification)


class WithItsOwnGenerator(Linear):
    """Draws what is the same for every seed without touching what others draw from."""

    def __init__(self, specification: SequenceSpecification) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            features = torch.randn(4)
        super().__init__(specification)
        self.register_buffer("features", features)
        np.random.seed(0)  # noqa: NPY002 - no generator of PyTorch


def built(model: type, seed: int = 0) -> torch.nn.Module:
    words = ["tasks=regbench", "preset=smoke", "device=cpu", f"models={__name__}.{model.__name__}"]
    configuration = compose(words)
    return build_model(configuration, build_task(configuration), seed)


def settings() -> dict[str, object]:
    return {name: setting.read() for name, setting in SETTINGS.items()}


def test_every_setting_is_put_back() -> None:
    before = settings()
    # A test before this one may have set a flag.
    other_values = {**OTHER_VALUES, **{name: not before[name] for name in FLAGS}}
    # Nor may it be the only mode: tests/rounding.py is one.
    other_values |= {n: s.read() + 1 for n, s in SETTINGS.items() if n.endswith("modes")}
    assert other_values.keys() == SETTINGS.keys()
    with kept_settings() as changed:
        for name, value in other_values.items():
            SETTINGS[name].set(value)
        assert changed == {}
    assert settings() == before
    assert changed == other_values


def test_an_autocast_that_was_never_left_keeps_no_weights() -> None:
    with kept_settings() as changed:
        for _ in range(2):
            torch.autocast("cpu", torch.bfloat16).__enter__()
    assert changed == {"autocast": True}
    weight = torch.ones(4, 4, requires_grad=True)
    for factor in (1.0, 3.0):
        with torch.no_grad():
            weight.fill_(factor)
        with torch.autocast("cpu", torch.bfloat16):
            assert float((torch.ones(1, 4) @ weight).detach().sum()) == 16 * factor


def test_settings_are_put_back_where_the_model_fails() -> None:
    @kept_settings()
    def fail() -> None:
        torch.set_default_dtype(torch.float64)
        raise ValueError("a model")

    before = settings()
    with pytest.raises(ValueError, match="a model"):
        fail()
    assert settings() == before


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (OfDouble, "default type to torch.float64, .*: take torch.set_default_dtype out of it"),
        (OnAnotherDevice, "default device to meta, .*: take torch.set_default_device out of it"),
        (OfOneSeed, "seeds PyTorch's generator .*every seed of a sweep would start from the same"),
    ],
)
def test_a_constructor_that_changes_what_weights_are_made_of_is_refused(
    model: type, sentence: str
) -> None:
    before = settings()
    with pytest.raises(UserError, match=rf"test_numerics\.{model.__name__}\): .*{sentence}"):
        built(model)
    assert settings() == before


def test_other_settings_of_a_constructor_are_put_back_and_nothing_is_refused() -> None:
    before = settings()
    built(OfTwoThreads)
    assert settings() == before


def test_a_model_that_draws_apart_has_other_weights_for_every_seed() -> None:
    weights = [built(WithItsOwnGenerator, seed).state_dict() for seed in (0, 1, 0)]
    assert torch.equal(weights[0]["read_out.weight"], weights[2]["read_out.weight"])
    assert not torch.equal(weights[0]["read_out.weight"], weights[1]["read_out.weight"])
    assert torch.equal(weights[0]["features"], weights[1]["features"])


def test_what_is_made_of_weights_is_a_setting() -> None:
    assert {*numerics.OF_WEIGHTS} <= numerics.FUNCTIONS.keys() == SETTINGS.keys()
