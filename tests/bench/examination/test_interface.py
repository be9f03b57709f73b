"""A model that cannot be called, trained or cut as tasks do it is named by that."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.examination.answers import examine_interface, refuse_other_shape
from bench.examination.repeatability import examine_repeatability
from bench.training.seeding import seed_generators
from bench.training.unfit import UnfitModel
from tests.bench.examination.generated import Guest
from tests.bench.examination.test_examination import examined, made, tokens


class WithTargets(Guest):
    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(inputs)


class WithOption(Guest):
    def forward(self, inputs: Tensor, scale: float = 1.0, **more: Any) -> Tensor:
        return scale * super().forward(inputs)


class WithNumber(Guest):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state_bytes = 128


class WithSomeParameters(Guest):
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return iter([*super().parameters(recurse)][:1])


class ByEnd(Guest):
    """Adds to each position how many follow it, and takes no sequence alone."""

    def forward(self, inputs: Tensor) -> Tensor:
        if len(inputs) == 1:
            raise RuntimeError("several sequences are wanted")
        following = torch.arange(inputs.shape[1], 0, -1)
        return super().forward(inputs) + following[:, None]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (WithTargets, "called with the inputs alone .missing a required argument: 'targets'.:"),
        (WithNumber, r"state_bytes is 128, .* define state_bytes\(self, length\), or"),
        (WithSomeParameters, r"parameters\(\) leaves out .*, which named_parameters\(\) has"),
    ],
)
def test_what_no_task_can_call_is_named_before_anything_is_computed(
    kind: type[Guest], sentence: str
) -> None:
    with pytest.raises(UnfitModel, match=sentence) as caught:
        examine_interface(made(kind))
    assert "\n" not in str(caught.value)


def test_options_of_forward_are_no_fault() -> None:
    examine_interface(made(WithOption))


def test_outputs_that_are_no_real_numbers_are_named() -> None:
    inputs = tokens()
    outputs = torch.zeros(*inputs.shape, 7)
    refuse_other_shape(outputs.bfloat16(), inputs, 7)
    with pytest.raises(UnfitModel, match="outputs of type complex64"):
        refuse_other_shape(outputs.to(torch.complex64), inputs, 7)


def test_sparse_gradients_are_named() -> None:
    def build(sparse: bool) -> Guest:
        seed_generators(0, torch.device("cpu"))
        model = made(Guest)
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = sparse
        return model

    cpu = torch.device("cpu")
    assert examine_repeatability(lambda: build(False), tokens(), cpu) == ()
    with pytest.raises(UnfitModel, match=r"has sparse gradients, .* with sparse=False"):
        examine_repeatability(lambda: build(True), tokens(), cpu)


def test_prefixes_of_a_batch_are_asked_where_one_alone_is_refused() -> None:
    assert "causal by prefixes" in examined(made(Guest)).passed
    with pytest.raises(UnfitModel, match="how long"):
        examined(made(ByEnd))
