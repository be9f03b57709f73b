"""A compiled step is the step, up to rounding; padding adds positions and changes no gradient."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from bench.training import compiled, loop
from bench.training.compiled import _padded, compiler_in_sentences, with_padded_batches
from ground.errors import UserError
from models.gpt2 import GPT2
from tasks.interface import Batch
from tasks.regbench import RegBench
from tests.bench.training.test_parallel import same, train
from tests.closeness import assert_near

SIZES = {"training_automata": 40, "validation_size": 5, "test_size": 5}
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="PyTorch compiles for a CPU by g++, which is not here"
)


@pytest.fixture(scope="module")
def one_length() -> RegBench:
    return RegBench(**SIZES, strings=(3, 3), string_length=(5, 5))


@pytest.fixture(scope="module")
def many_lengths() -> RegBench:
    return RegBench(**SIZES, strings=(2, 9), string_length=(1, 9))


@needs_compiler
def test_a_compiled_training_is_that_training(one_length: RegBench, tmp_path: Path) -> None:
    """With the same dropout, and taken up again to the same weights."""
    train_here = partial(train, one_length, dropout=0.2)
    plain = train_here(tmp_path / "plain")
    whole = train_here(tmp_path / "whole", compile=True)
    same(plain, whole)
    again = train_here(tmp_path / "again", compile=True, stop_after=3)
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


@needs_compiler
def test_more_shapes_than_programs_are_refused(
    many_lengths: RegBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "SHAPES", 1)
    with pytest.raises(UserError, match="each shape of batch, and here are more than 1:") as known:
        train(many_lengths, tmp_path, compile=True)
    # A task that shares its batches shows no shapes before it is compiled.
    monkeypatch.setattr(loop, "refuse_many_shapes", lambda batches: None)
    monkeypatch.setattr(loop, "compiler_in_sentences", partial(compiler_in_sentences, 0))
    with pytest.raises(UserError) as found:
        train(many_lengths, tmp_path, compile=True)
    assert str(found.value) == str(known.value)


def test_without_a_compiler_it_says_so(
    one_length: RegBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._inductor.config as inductor

    monkeypatch.setattr(inductor.cpp, "cxx", (str(tmp_path / "no-compiler"),))
    with pytest.raises(UserError, match=r"cannot compile this training \(.+\).*C\+\+ compiler"):
        train(one_length, tmp_path, compile=True)


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
            assert_near(a, b, terms=200)
    assert len(lengths) < 4 or multiple == 2


def test_targets_that_all_count_are_not_padded() -> None:
    batch = Batch(torch.zeros(2, 5, 1), torch.zeros(2, 5, 1), tokens=10)
    with pytest.raises(UserError, match="for targets that may be left out"):
        _padded(batch, multiple=4, longest=100)
    assert _padded(batch, multiple=4, longest=5) is batch
