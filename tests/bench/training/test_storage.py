"""Parameters that share memory: saved once, counted once, and refused where a step would change
one twice."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from bench.training.optimisation import build_optimizer
from bench.training.saved_tensors import SavedTensors
from bench.training.storage import (
    as_safetensors,
    count_numbers,
    count_parameters,
    examine_storage,
    load_weights,
    make_whole,
    on_meta,
    shared_names,
)
from bench.training.unfit import UnfitModel
from tests.configurations import compose
from tests.models.built import GUESTS, NAMES, SPECIFICATIONS, small_model

ROWS, WIDTH = 5, 4
INPUTS = torch.tensor([[0, 3, 1, 4]])


class Network(nn.Module):
    """Two matrices of one shape, of which a test makes what it asks for."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(ROWS, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH)] * 3)
        self.out = nn.Linear(WIDTH, ROWS, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed(inputs)
        for block in self.blocks:
            hidden = torch.tanh(block(hidden))
        return self.out(hidden)


class Tied(Network):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.out.weight = self.embed.weight
        mask = torch.rand(WIDTH)
        self.register_buffer("mask", mask)
        self.register_buffer("same_mask", mask)


@pytest.mark.bitwise
def test_a_shared_tensor_is_in_the_file_once_and_is_shared_again_when_loaded() -> None:
    model, other = Tied(0), Tied(1)
    content = as_safetensors(model.state_dict())
    stored = safetensors.torch.load(content)
    assert sorted(stored) == ["blocks.0.bias", "blocks.0.weight", "embed.weight", "mask"]
    assert content == as_safetensors(model.state_dict())
    load_weights(other, stored, Path("w"))
    assert torch.equal(other(INPUTS), model(INPUTS))
    assert other.out.weight is other.embed.weight
    assert other.blocks[2] is other.blocks[0]
    with torch.no_grad():
        other.embed.weight.zero_()
    assert not other(INPUTS).any()


@pytest.mark.bitwise
def test_safetensors_own_loader_reads_the_file(tmp_path: Path) -> None:
    model, other = Tied(0), Tied(1)
    path = tmp_path / "weights.safetensors"
    path.write_bytes(as_safetensors(model.state_dict()))
    safetensors.torch.load_model(other, path)
    assert torch.equal(other(INPUTS), model(INPUTS))


@pytest.mark.parametrize("name", sorted({*NAMES} - {*GUESTS}))
def test_files_of_models_that_share_nothing_are_as_ever(name: str) -> None:
    for kind in SPECIFICATIONS:
        try:
            model = small_model(name, kind)
        except ValueError:
            continue
        state = model.state_dict()
        assert not shared_names(state)
        plain = {key: value.detach().contiguous() for key, value in state.items()}
        assert as_safetensors(state) == safetensors.torch.save(plain)
        assert count_parameters(model) == sum(p.numel() for p in model.parameters())
        examine_storage(model)


def overlapping(make: Callable[[Network], None]) -> Network:
    model = Network()
    make(model)
    return model


def transposed(model: Network) -> None:
    model.out.weight = nn.Parameter(model.embed.weight.data.t())


def same_data(model: Network) -> None:
    model.out.weight = nn.Parameter(model.embed.weight.data)


def later_rows(model: Network) -> None:
    memory = torch.randn(2 * ROWS - 1, WIDTH)
    model.embed.weight, model.out.weight = (
        nn.Parameter(memory[:ROWS]),
        nn.Parameter(memory[ROWS - 1 :]),
    )


def through_numpy(model: Network) -> None:
    rows = torch.from_numpy(model.embed.weight.detach().numpy()[1:])
    model.later = nn.Parameter(rows)


def through_dlpack(model: Network) -> None:
    model.later = nn.Parameter(torch.from_dlpack(model.embed.weight.detach().numpy()))


def expanded(model: Network) -> None:
    model.out.weight = nn.Parameter(torch.randn(1, WIDTH).expand(ROWS, WIDTH))


def sliding(model: Network) -> None:
    model.out.weight = nn.Parameter(torch.randn(ROWS + WIDTH).as_strided((ROWS, WIDTH), (1, 1)))


def buffer_in_parameter(model: Network) -> None:
    model.register_buffer("first_row", model.embed.weight.data[0])


def frozen_in_parameter(model: Network) -> None:
    model.out.weight = nn.Parameter(model.embed.weight.data[:], requires_grad=False)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (transposed, r"embed\.weight and out\.weight are two parameters that lie in one memory"),
        (same_data, r"embed\.weight and out\.weight are two parameters that lie in one memory"),
        (later_rows, r"embed\.weight and out\.weight are two parameters that lie in one memory"),
        (through_numpy, r"later and embed\.weight are two parameters that lie in one memory"),
        (through_dlpack, r"later and embed\.weight are two parameters that lie in one memory"),
        (expanded, r"out\.weight is an expanded tensor: its 20 numbers lie in 4 places"),
        (sliding, r"out\.weight is an expanded tensor: its 20 numbers lie in 8 places"),
        (buffer_in_parameter, r"first_row, which is not trained, lies in the memory of .*embed"),
        (frozen_in_parameter, r"out\.weight, which is not trained, lies in the memory of"),
    ],
)
def test_parameters_that_overlap_are_refused(
    make: Callable[[Network], None], sentence: str
) -> None:
    with pytest.raises(UnfitModel, match=sentence) as caught:
        examine_storage(overlapping(make))
    assert "\n" not in str(caught.value)


def neighbours(model: Network) -> None:
    memory = torch.randn(2 * ROWS, WIDTH)
    model.embed.weight, model.out.weight = (
        nn.Parameter(memory[:ROWS]),
        nn.Parameter(memory[ROWS:]),
    )


def interleaved(model: Network) -> None:
    memory = torch.randn(2 * ROWS, WIDTH)
    model.embed.weight, model.out.weight = nn.Parameter(memory[::2]), nn.Parameter(memory[1::2])


@pytest.mark.parametrize("make", [neighbours, interleaved])
@pytest.mark.bitwise
def test_parts_of_one_memory_that_do_not_overlap_are_trained_and_saved(
    make: Callable[[Network], None],
) -> None:
    model, other = overlapping(make), overlapping(make)
    examine_storage(model)
    settings = compose(["tasks=regbench", "models=gpt2"]).training
    model(INPUTS).square().mean().backward()
    build_optimizer(model, settings).step()
    load_weights(other, safetensors.torch.load(as_safetensors(model.state_dict())), Path("w"))
    assert torch.equal(other(INPUTS), model(INPUTS))


def test_an_expanded_buffer_is_made_whole() -> None:
    def build() -> nn.Module:
        model = nn.Linear(2, 2)
        mask = torch.rand(2, 1).expand(2, 3)
        model.register_buffer("mask", mask)
        model.register_buffer("same", mask)
        model.register_buffer("view", torch.ones(1).expand(9), persistent=False)
        make_whole(model)
        return model

    model, other = build(), build()
    load_weights(other, safetensors.torch.load(as_safetensors(model.state_dict())), Path("w"))
    assert torch.equal(other.mask, model.mask)
    assert other.same is other.mask
    assert other.view.untyped_storage().nbytes() == 4  # nobody loads it: it stays small


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda m: setattr(m, "out", nn.LazyLinear(3)), "has no shape before the first batch"),
        (
            lambda m: m.register_buffer("poles", torch.zeros(2, dtype=torch.complex128)),
            r"poles of the state dict is of type torch\.complex128",
        ),
        (
            lambda m: m.register_buffer("graph", torch.eye(3).to_sparse()),
            "graph of the state dict is a sparse",
        ),
    ],
)
def test_what_no_file_holds_is_known_before_training(
    make: Callable[[Network], None], sentence: str
) -> None:
    with pytest.raises(UnfitModel, match=sentence):
        examine_storage(overlapping(make))


def addresses(tensor: Tensor) -> set[int]:
    """Of every number, by asking PyTorch for one after the other."""
    places = itertools.product(*map(range, tensor.shape))
    return {tensor[place].data_ptr() for place in places}


def test_numbers_are_counted_by_their_places() -> None:
    memory = torch.zeros(6, 8)
    groups = [
        [memory],
        [memory[1:], memory[:, 2:5]],
        [memory[:3], memory[3:]],
        [memory.t(), torch.zeros(3)],
        [memory[::2], memory[1::2]],
        [memory[::2, ::3], memory[2:4]],
        [torch.zeros(1, 3).expand(7, 3), torch.zeros(()).expand(2, 2)],
        [torch.zeros(9).as_strided((4, 4), (1, 1)), torch.zeros(0, 5)],
        [torch.zeros(2, 3, 4).permute(2, 0, 1), torch.zeros(4, 1).expand(4, 1)],
    ]
    for tensors in groups:
        assert count_numbers(tensors) == len(set.union(*map(addresses, tensors)))


def test_numbers_of_one_memory_are_counted_once_through_numpy() -> None:
    assert count_parameters(overlapping(through_numpy)) == count_parameters(Network())


def test_counts_are_the_same_without_memory() -> None:
    """Sizes are checked on PyTorch's meta device, where every address is 0."""
    with torch.device("meta"):
        model, plain = Tied(), Network()
    assert count_parameters(model) == ROWS * WIDTH + WIDTH * WIDTH + WIDTH
    assert count_parameters(plain) == count_parameters(model) + ROWS * WIDTH
    moved = on_meta(Tied())
    assert {parameter.device.type for parameter in moved.parameters()} == {"meta"}
    assert moved.out.weight is moved.embed.weight
    assert count_parameters(moved) == count_parameters(model)


def test_rules_of_a_shared_parameter_may_have_any_of_its_names() -> None:
    class Ruled(Tied):
        def parameter_options(self) -> dict[str, dict[str, float]]:
            return {"out.weight": {"maximum_lr": 1e-5}}

    model = Ruled()
    settings = compose(["tasks=regbench", "models=gpt2"]).training
    groups = cast(list[dict[str, list[Tensor]]], build_optimizer(model, settings).param_groups)
    (capped,) = [group["params"] for group in groups if group["maximum_lr"] == 1e-5]
    assert [id(parameter) for parameter in capped] == [id(model.embed.weight)]
    assert sum(len(group["params"]) for group in groups) == 3


class Filled(nn.Module):
    """Adds positions from a cache in a buffer, filled up to a length that an attribute says."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: Tensor
        self.register_buffer("cache", torch.zeros(64), persistent=False)
        self.note(0)

    def note(self, length: int) -> None:
        """Up to which length the cache is filled."""
        self.length = length

    def noted(self) -> int:
        """What was noted."""
        return self.length

    def forward(self, inputs: Tensor) -> Tensor:
        if (time := inputs.shape[1]) > self.noted():
            self.fill(time)
            self.note(time)
        return inputs + self.cache[:time]

    def fill(self, time: int) -> None:
        """Positions 1 to ``time``."""
        self.cache[:time] = torch.arange(1.0, time + 1)


class Larger(Filled):
    """The buffer is another tensor whenever it grows."""

    def fill(self, time: int) -> None:
        self.cache = torch.arange(1.0, time + 1)


class NotedInPlace(Filled):
    """The length is in a list."""

    def note(self, length: int) -> None:
        if not hasattr(self, "lengths"):
            self.lengths: list[int] = []
        self.lengths.append(length)

    def noted(self) -> int:
        return self.lengths[-1]


class NotedInTensor(Filled):
    """The length is in a tensor that is no buffer."""

    def note(self, length: int) -> None:
        if not hasattr(self, "reach"):
            self.reach = torch.zeros((), dtype=torch.int64)
        self.reach.fill_(length)

    def noted(self) -> int:
        return int(self.reach)


@pytest.mark.parametrize("before", [0, 6])
@pytest.mark.parametrize("kind", [Filled, Larger, NotedInPlace, NotedInTensor])
def test_what_a_module_notes_of_a_cache_is_put_back_with_it(
    kind: type[Filled], before: int
) -> None:
    model = nn.Sequential(kind())
    if before:
        model(torch.zeros(1, before))
    saved = SavedTensors(model)
    model(torch.zeros(1, 12))
    saved.restore()
    for time in (4, before + 3, 12, 20):
        assert torch.equal(model(torch.zeros(1, time)), torch.arange(1.0, time + 1)[None])
