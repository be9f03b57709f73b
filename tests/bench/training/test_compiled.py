"""A compiled step is the step, up to rounding; padding adds positions and changes no gradient."""

import pickle
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from bench.runs.serving import identify
from bench.training import building, compiled, loop
from bench.training.building import build_task, data_hashes, task_or_measurement
from bench.training.compiled import (
    _padded,
    compiler_in_sentences,
    refuse_many_shapes,
    with_padded_batches,
)
from core.errors import UserError
from models.gpt2 import GPT2
from tasks.interface import Batch
from tasks.regbench import RegBench
from tests.bench.training.test_parallel import same, train
from tests.bench.training.test_stack import Letters
from tests.closeness import assert_near
from tests.configurations import compose

SIZES = {"training_automata": 40, "validation_size": 5, "test_size": 5}
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="PyTorch compiles for a CPU by g++, which is not here"
)


class ManyLengths(Letters):
    """A position more at every step."""

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        batch = super().training_batch(seed, step, size)
        return Batch(batch.inputs[:, : 5 + step], batch.targets[:, : 5 + step], size * (5 + step))


@pytest.fixture(scope="module")
def many_lengths() -> RegBench:
    return RegBench(**SIZES, strings=(2, 9), string_length=(1, 9))


@needs_compiler
@pytest.mark.bitwise
def test_a_compiled_training_is_that_training(tmp_path: Path) -> None:
    """With the same dropout, and taken up again to the same weights."""
    train_here = partial(train, Letters(), dropout=0.2)
    plain = train_here(tmp_path / "plain")
    whole = train_here(tmp_path / "whole", compile=True)
    same(plain, whole)
    again = train_here(tmp_path / "again", compile=True, stop_after=3)
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


@needs_compiler
@pytest.mark.bitwise
def test_more_shapes_than_programs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "SHAPES", 1)
    with pytest.raises(UserError, match="each shape of batch, at most 1, and here") as known:
        train(ManyLengths(), tmp_path, compile=True)
    # A task that shares its batches shows no shapes before it is compiled.
    monkeypatch.setattr(loop, "refuse_many_shapes", lambda batches, size: None)
    monkeypatch.setattr(loop, "compiler_in_sentences", partial(compiler_in_sentences, 0))
    with pytest.raises(UserError) as found:
        train(ManyLengths(), tmp_path, compile=True)
    assert str(found.value) == str(known.value)


@pytest.mark.bitwise
def test_without_a_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(inductor.cpp, "cxx", (str(tmp_path / "no-compiler"),))
    with pytest.raises(UserError, match=r"cannot compile this training \(.+\).*C\+\+ compiler"):
        train(Letters(), tmp_path, compile=True)


@pytest.mark.bitwise
def test_what_goes_by_numbers_is_not_compiled_in_parts(
    many_lengths: RegBench, tmp_path: Path
) -> None:
    """RegBench shares a batch by length on a CPU."""
    alike = RegBench(**SIZES, strings=(3, 3), string_length=(5, 5))
    with pytest.raises(UserError, match="no loss that goes by numbers"):
        train(alike, tmp_path, compile=True)


def test_parts_of_a_batch_are_shapes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SHAPES", 1)
    batches = [Letters().training_batch(0, step, 5) for step in range(2)]
    refuse_many_shapes(batches)
    with pytest.raises(UserError, match="at most 1"):
        refuse_many_shapes(batches, size=3)  # 3 sequences and 2


def test_a_task_is_padded_as_it_is_configured_and_can_be_pickled() -> None:
    building._build_task.cache_clear()
    words = ["tasks=regbench", "models=gpt2", "preset=smoke"]
    plain, padded = (compose([*words, *more]) for more in ([], ["training.pad_to_multiple_of=16"]))
    assert len({identify(one).identity for one in (plain, padded, compose(words))}) == 2
    again = pickle.loads(pickle.dumps(build_task(padded)))
    for task in (build_task(padded), again):
        batch = task.training_batch(0, 0, 4)
        assert batch.inputs.shape[1] % 16 == 0
        assert batch.tokens == build_task(plain).training_batch(0, 0, 4).tokens
    # The data of all, padded or not, are made once, whichever makes them.
    building._build_task.cache_clear()
    padding = build_task(padded)
    assert build_task(plain).splits is padding.splits
    assert task_or_measurement(plain) is build_task(plain)
    data_hashes(plain)
    assert building._build_task.cache_info().currsize == 1


@pytest.mark.parametrize("multiple", [2, 16, 10_000])
def test_padding_changes_no_gradient(many_lengths: RegBench, multiple: int) -> None:
    padding = with_padded_batches(many_lengths, multiple)
    longest = many_lengths.specification().maximum_length
    torch.manual_seed(0)
    model = GPT2(many_lengths.specification(), width=16, layers=1, heads=2, dropout=0.0).double()
    lengths = set()
    for step in range(4):
        batch, padded = (task.training_batch(1, step, 3) for task in (many_lengths, padding))
        length = padded.inputs.shape[1]
        lengths.add(length)
        assert length % multiple == 0 or length == longest
        assert length - batch.inputs.shape[1] < multiple
        assert torch.equal(padded.inputs[:, : batch.inputs.shape[1]], batch.inputs)
        assert (padded.tokens, padded.asked) == (batch.tokens, batch.asked)
        found = []
        for one in (batch, padded):
            model.zero_grad()
            loss = many_lengths.loss(model(one.inputs), one)
            loss.backward()
            found.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
        for a, b in zip(*found, strict=True):
            assert_near(a, b, terms=200, dtype=torch.float32)  # the loss is computed in that
    assert len(lengths) < 4 or multiple == 2


def test_targets_that_all_count_are_not_padded() -> None:
    zeros, letters = torch.zeros(2, 5, 1), torch.zeros(2, 5, dtype=torch.int64)
    batch = Batch(zeros, zeros, tokens=10)
    for one in (batch, Batch(letters, letters, tokens=10, extras={"each": letters})):
        with pytest.raises(UserError, match="for targets that may be left out"):
            _padded(one, multiple=4, longest=100)
    of_sequences = Batch(letters, letters, tokens=10, extras={"each": letters[:, :2]})
    assert _padded(of_sequences, multiple=4, longest=100).inputs.shape == (2, 8)
    assert _padded(batch, multiple=4, longest=5) is batch
