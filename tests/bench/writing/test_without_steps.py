"""Generation by a model that has no step."""

import pytest
import torch
from torch import Tensor, nn

from bench.writing.generation import sample
from bench.writing.without_steps import with_steps
from models.generation import beam_search
from models.gpt2 import GPT2
from models.specification import SequenceSpecification


class Stepless(nn.Module):
    """GPT2, of which only the forward pass is offered."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        specification = SequenceSpecification(maximum_length=12, vocabulary=9)
        self.gpt2 = GPT2(specification, width=16, layers=1, heads=2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.gpt2(inputs)
        return outputs


def test_it_writes_what_its_steps_would_write() -> None:
    model = Stepless().eval()
    prompt = torch.tensor([1, 2, 3])
    assert with_steps(model.gpt2) is model.gpt2
    for written, expected in [
        (
            beam_search(with_steps(model), prompt, width=3, new_tokens=6),
            beam_search(model.gpt2, prompt, width=3, new_tokens=6),
        ),
        (
            sample(with_steps(model), prompt, new_tokens=6, count=3),
            sample(model.gpt2, prompt, new_tokens=6, count=3),
        ),
    ]:
        assert [one.tokens for one in written] == [one.tokens for one in expected]


def test_a_text_that_is_too_long_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="the model stops at a text of 13 tokens"):
        beam_search(with_steps(Stepless().eval()), torch.arange(9), width=1, new_tokens=9)
