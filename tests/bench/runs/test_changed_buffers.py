"""Numbers in buffers that training changes are known beside the parameters."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import bench
from bench import train
from bench.records.schema import read_record
from bench.runs.changed_buffers import changed_numbers
from bench.training.storage import count_parameters
from models.specification import SequenceSpecification

FEW = {"training.steps": 2, "training.batch_size": 4, "training.warmup_steps": 1}


class Counts(nn.Module):
    """A table of what follows what, which it counts in a buffer as it is trained."""

    table: Tensor

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        size = specification.vocabulary or 0
        self.bias = nn.Parameter(torch.zeros(specification.output_size))
        self.register_buffer("table", torch.zeros(size, specification.output_size))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.table.clone()[inputs] + self.bias
        if self.training:
            pairs = inputs[:, :-1].flatten(), inputs[:, 1:].flatten()
            self.table.index_put_(pairs, torch.ones(len(pairs[0])), accumulate=True)
        return outputs


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.tensor([0.0, float("nan"), 2.0]))
        self.again = self.mask  # a second name of one tensor


def test_changed_numbers_of_buffers_are_counted() -> None:
    model = Normalised()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert changed_numbers(model, before) == 0
    after = {**before, "norm.running_mean": torch.tensor([0.0, 1.0, 0.0, 2.0])}
    after["norm.weight"] = torch.full((4,), 7.0)  # a parameter
    after["norm.num_batches_tracked"] = torch.tensor(5)
    after["mask"] = torch.tensor([1.0, float("nan"), 2.0])
    assert changed_numbers(model, after) == 2 + 1 + 1
    assert changed_numbers(model, {**before, "mask": torch.zeros(9)}) == 9


class WithExtraState(nn.Linear):
    """Has numbers beside its weights that are no buffer, and lists the first of its parameters."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.table = torch.zeros(5)

    def get_extra_state(self) -> Tensor:
        return self.table

    def set_extra_state(self, state: Tensor) -> None:
        self.table = state

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        return itertools.islice(super().named_parameters(*args, **kwargs), 1)


def test_numbers_that_a_class_does_not_list_are_counted() -> None:
    model = WithExtraState()
    after = {name: value.clone() for name, value in model.state_dict().items()}
    after["_extra_state"][:3] = 1.0
    assert changed_numbers(model, after) == 3
    assert count_parameters(model) == 4 + 2


def test_a_record_and_its_printout_say_what_was_learned_in_buffers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{__name__}.{Counts.__name__}"
    words = ["tasks=bigram", f"models={target}", f"store={tmp_path}", "device=cpu"]
    assert train.main([*words, *(f"{key}={value}" for key, value in FEW.items())]) == 0
    (path,) = (tmp_path / "records").glob("*.json")
    record = read_record(path)
    changed = record.cost.changed_buffers
    weights = tmp_path / "work" / record.run_id / "weights.safetensors"
    assert changed == int((load_file(weights)["table"] != 0).sum()) > record.cost.parameters
    shown, notes = capsys.readouterr()
    parameters = f"{record.cost.parameters} parameters"
    assert f"{parameters} and {changed} numbers in buffers that training changed" in shown
    assert "For a rank: python -m bench.sweep, the same tasks= and models=, and preset=lap" in notes


def test_a_model_without_such_buffers_has_no_such_number(tmp_path: Path) -> None:
    record = bench.run("bigram", "lstm", store=tmp_path, device="cpu", settings=FEW, quiet=True)
    assert record.cost.changed_buffers is None
    assert "changed_buffers" not in record.model_dump(mode="json")["cost"]
