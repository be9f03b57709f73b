"""Classes of somebody else that take something else than a specification, or change what holds for
the whole process: one sentence each, before a large package is hashed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import train
from bench.config import source_files
from bench.config.external import constructor_of
from bench.records.code import forget_code
from bench.records.schema import read_records
from bench.runs import serving
from bench.training.numerics import SETTINGS
from core.errors import OK, UserError

FILE = """
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.set_num_threads(torch.get_num_threads() + 1)


class Spec(nn.Module):
    def __init__(self, spec, width=8):
        super().__init__()
        self.embedding = nn.Embedding(spec.vocabulary, width)
        self.read_out = nn.Linear(width, spec.output_size)

    def forward(self, inputs):
        return self.read_out(self.embedding(inputs))


class NoDefault(Spec):
    def __init__(self, specification, width, depth):
        super().__init__(specification, width)


class NoSpecification(nn.Module):
    def __init__(self):
        super().__init__()


class Keyword(Spec):
    def __init__(self, *, specification, width=8):
        super().__init__(specification, width)


class Second(Spec):
    def __init__(self, width, specification):
        super().__init__(specification, width)


class OfConfig(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.Linear(config.hidden_size, 3)


class OfSizes(nn.Module):
    def __init__(self, vocab_size, width=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)


class Odd(Spec):
    def __init__(self, spec, width=7):
        raise ValueError(f"width={width} is odd: give an even one")


class OfTwoSizes(nn.Module):
    def __init__(self, num_tokens, dim):
        super().__init__()


class NamedSizes(nn.Module):
    def __init__(self, *, num_tokens, dim):
        super().__init__()


class NoModule:
    def __init__(self, specification):
        pass


class LateThreads(Spec):
    def __init__(self, specification):
        super().__init__(specification)
        self.calls = 0

    def forward(self, inputs):
        self.calls += self.training
        if self.calls == 60:
            torch.set_num_threads(torch.get_num_threads() + 2)
        return super().forward(inputs)
"""
FIRST = "the specification of the task comes first, and docs/guests.md shows such classes"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unfit_models.py").write_text(FILE)
    yield tmp_path
    sys.modules.pop("unfit_models", None)
    forget_code()


def words(model: str, steps: int = 3) -> list[str]:
    of_file = model if "." in model else f"./unfit_models.py:{model}"
    return [
        *("tasks=regbench", f"models={of_file}", "preset=smoke", "device=cpu"),
        *(f"training.steps={steps}", "training.batch_size=4"),
    ]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "NoDefault",
            "no default for depth: add models.depth=VALUE; its constructor is "
            rf"NoDefault\(specification, width, depth\), and .*{FIRST}",
        ),
        (
            "OfTwoSizes",
            r"no default for dim: add models\.dim=VALUE if its first argument, num_tokens, is "
            rf"meant for the specification, and put the class into one of your own if not.*{FIRST}",
        ),
        (
            "NamedSizes",
            "no default for dim: put the class into one of your own, since it takes no argument by "
            rf"its place; .*{FIRST}",
        ),
        ("NoSpecification", rf"its constructor is NoSpecification\(\), and .*{FIRST}"),
        ("Keyword", rf"its constructor is Keyword\(\*, specification, width=8\), and .*{FIRST}"),
        ("Second", rf"takes specification after another argument: put it first; .*{FIRST}"),
        (
            "OfConfig",
            r"cannot be built: AttributeError \(.*no attribute 'hidden_size'\); its constructor is "
            rf"OfConfig\(config\), and the engine builds OfConfig\(specification, \*\*.*{FIRST}",
        ),
        ("OfSizes", rf"cannot be built: .*its constructor is OfSizes\(vocab_size, .*{FIRST}"),
        ("torch.nn.GRU", rf"its constructor is GRU\(\*args, \*\*kwargs\), and .*{FIRST}"),
        ("NoModule", "is no model: a model derives from torch.nn.Module, as docs/guests.md shows"),
    ],
)
def test_another_constructor_is_told_before_any_package_is_hashed(
    model: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(target: str) -> str:
        raise AssertionError(f"{target} was hashed")

    monkeypatch.setattr(serving, "code_hash", hashed)
    with pytest.raises(UserError, match=said) as refusal:
        train.main(words(model))
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).count("comes first") <= 1


def test_a_setting_that_a_class_refuses_is_told_in_its_words() -> None:
    with pytest.raises(UserError, match=r"Odd\): width=\d+ is odd: give an even one"):
        train.main(words("Odd"))


def test_a_specification_of_another_name_will_do_and_settings_at_import_are_put_back() -> None:
    before = {name: setting.read() for name, setting in SETTINGS.items()}
    assert train.main(words("Spec")) == OK
    assert {name: setting.read() for name, setting in SETTINGS.items()} == before
    (record,) = read_records([Path("runs/records")])
    assert record.cost.parameters == 20 * 64 + 64 * 20 + 20
    (weights,) = Path("runs/work").rglob("weights.safetensors")
    assert weights.stat().st_size < 8 * record.cost.parameters  # of float32


def test_a_setting_that_is_changed_late_in_a_training_leaves_no_score() -> None:
    before = {name: setting.read() for name, setting in SETTINGS.items()}
    assert train.main(words("LateThreads", steps=80)) == 1
    assert {name: setting.read() for name, setting in SETTINGS.items()} == before
    (record,) = read_records([Path("runs/records")])
    assert record.outcome == "failed"
    assert "sets PyTorch's threads to" in str(record.cause)


def test_a_constructor_is_shown_without_types_and_long_defaults() -> None:
    class Typed:
        def __init__(self, specification: Any, act: Any = print, *, sizes: tuple = (1, 2)) -> None:
            pass

    class Long:
        def __init__(self, a: str = "x" * 90, b: int = 10**25) -> None:
            pass

    assert constructor_of(Typed) == "Typed(specification, act=…, *, sizes=(1, 2))"
    assert constructor_of(Long) == "Long(a=…, b=…)"
    assert constructor_of(type("Many", (), {"__init__": many_arguments})).endswith("…)")


def many_arguments(
    self: Any, argument_of_one_kind: int = 1, argument_of_another_kind: int = 2,
    argument_of_a_third_kind: int = 3, argument_of_a_fourth_kind: int = 4,
    argument_of_a_fifth_kind: int = 5, argument_of_a_sixth_kind: int = 6,
) -> None:  # fmt: skip
    """A signature that is longer than what is shown."""
