"""Windows against slices of a list, losses against all logits at once in float64."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from models.gpt2 import GPT2
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification
from tasks.text import losses
from tasks.text.corpora import stories_corpus
from tasks.text.preparation import prepare
from tasks.text.stream import TokenStream
from tasks.text.tokenizers import load_tokenizer
from tasks.text.windows import (
    article_starts,
    consecutive,
    cut,
    document_of,
    evenly,
    random_starts,
    windows_sha256,
)
from tests.closeness import assert_near

LARGE = losses.SMALL_VOCABULARY + 37


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> TokenStream:
    folder: Path = tmp_path_factory.mktemp("prepared")
    return prepare(stories_corpus("grammar", size=60), "train", load_tokenizer("grammar"), folder)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40), st.integers(1, 50), st.integers(1, 10**9))
def test_random_starts_are_a_function_of_seed_and_step(
    seed: int, step: int, count: int, places: int
) -> None:
    starts = random_starts(seed, step, count, places)
    assert starts.shape == (count,)
    assert ((starts >= 0) & (starts < places)).all()
    np.random.seed(7)  # noqa: NPY002 - the global state must not matter
    assert (random_starts(seed, step, count, places) == starts).all()
    assert (random_starts(seed, step, count + 3, places)[:count] == starts).all()


def test_random_starts_are_uniform_and_steps_differ() -> None:
    starts = np.concatenate([random_starts(0, step, 100, 10) for step in range(100)])
    counts = np.bincount(starts, minlength=10)
    assert np.square(counts - 1000).sum() / 1000 < 30  # chi-squared of 9 degrees: p < 0.0005
    assert not np.array_equal(random_starts(0, 0, 20, 10**6), random_starts(0, 1, 20, 10**6))
    assert not np.array_equal(random_starts(0, 0, 20, 10**6), random_starts(1, 0, 20, 10**6))


@given(st.integers(0, 200), st.integers(1, 200))
def test_even_choices_are_ordered_different_and_span_the_whole(count: int, wanted: int) -> None:
    chosen = evenly(count, wanted).tolist()
    assert len(chosen) == min(count, wanted)
    assert chosen == sorted(set(chosen))
    assert all(0 <= number < count for number in chosen)
    if chosen:
        gaps = np.diff([*chosen, count])
        assert gaps.max() - gaps.min() <= 1


@given(st.integers(0, 30), st.integers(0, 120), st.integers(1, 40))
def test_consecutive_windows_ask_for_every_token_once(first: int, size: int, length: int) -> None:
    starts = consecutive(first, first + size, length)
    asked = [p for start in starts.tolist() for p in range(start + 1, start + length + 1)]
    assert asked == list(range(first + 1, first + 1 + len(asked)))
    assert first + size - 1 - len(asked) < first + length  # the rest is shorter than a window
    assert all(p < first + size for p in asked)


def test_windows_are_slices_of_the_stream(stream: TokenStream) -> None:
    tokens = stream.tokens.tolist()
    starts = np.array([0, 5, len(tokens) - 12])
    assert cut(stream, starts, 11).tolist() == [tokens[s : s + 12] for s in starts.tolist()]
    documents = document_of(stream, np.arange(len(tokens))).tolist()
    expected = [i for i in range(len(stream)) for _ in stream.document(i)]
    assert documents == expected


def test_article_windows_lie_inside_one_document(stream: TokenStream) -> None:
    length = int(np.median(np.diff(np.asarray(stream.starts))))
    starts, documents = article_starts(stream, length)
    assert 0 < len(starts) < len(stream)
    long_enough = [i for i in range(len(stream)) if len(stream.document(i)) - 1 >= length + 1]
    assert documents.tolist() == long_enough
    windows = cut(stream, starts, length)
    assert not (windows == stream.manifest.end_of_text).any()


def test_the_hash_of_windows_tells_lists_and_lengths_apart(stream: TokenStream) -> None:
    starts = np.array([0, 3])
    hashes = {
        windows_sha256(stream, starts, 8),
        windows_sha256(stream, starts, 9),
        windows_sha256(stream, starts[::-1], 8),
        windows_sha256(stream, starts[:1], 8),
    }
    assert len(hashes) == 4
    assert windows_sha256(stream, starts.astype(np.int32), 8) in hashes


def build(kind: type[nn.Module], vocabulary: int) -> nn.Module:
    torch.manual_seed(3)
    return kind(SequenceSpecification(16, vocabulary=vocabulary), width=8, layers=1, heads=2)


def tokens(vocabulary: int) -> Tensor:
    return torch.randint(vocabulary, (3, 17), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("kind", [GPT2, MemoryMosaic])
@pytest.mark.parametrize("vocabulary", [50, LARGE])
def test_losses_and_gradients_are_those_of_all_logits_at_once(
    kind: type[nn.Module], vocabulary: int
) -> None:
    model, reference = build(kind, vocabulary).eval(), build(kind, vocabulary).double().eval()
    window = tokens(vocabulary)
    inputs, targets = window[:, :-1], window[:, 1:]
    expected = functional.cross_entropy(
        reference(inputs).flatten(0, 1), targets.flatten(), reduction="none"
    ).view_as(targets)
    with torch.no_grad():
        found = losses.token_losses(model, inputs, targets)
    # Sums over the vocabulary in a loss, over it and the 48 targets in a gradient, and the few of
    # one layer of width 8. The logarithm of a sum is off by the sum's relative error: by that of 1.
    terms = vocabulary + 48 + 200
    one = {"terms": terms, "largest": 1.0, "dtype": torch.float32}
    assert_near(found, expected.detach(), **one)
    loss = losses.training_loss(model, inputs, targets)
    loss.backward()
    expected.mean().backward()
    assert_near(loss, expected.mean(), **one)
    # The kernel of the mosaic, β = e² = 7.4, stretches errors, and of what is added up in the
    # gradient of its leaks about half is left.
    rounding = {"condition": 15.0 if kind is MemoryMosaic else 2.0, "dtype": torch.float32}
    true = dict(reference.named_parameters())
    for name, mine in model.named_parameters():
        assert mine.grad is not None
        assert true[name].grad is not None
        assert_near(mine.grad, true[name].grad, name=name, terms=terms, **rounding)


class OnlyLogits(nn.Module):
    """A model of another package, which offers nothing but its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 50)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.table(inputs)


def test_a_model_that_gives_only_logits_is_measured_too() -> None:
    model, window = OnlyLogits(), tokens(50)
    found = losses.token_losses(model, window[:, :-1], window[:, 1:])
    table = model.table.weight.detach()
    expected = -table.log_softmax(-1)[window[:, :-1], window[:, 1:]]
    assert_near(found, expected, terms=50)
    loss = losses.training_loss(model, window[:, :-1], window[:, 1:])
    assert_near(loss, expected.mean(), terms=50 + 48)
    assert losses.rows_at_once(model, 16, 2**22) == 1
    assert losses.rows_at_once(model, 16, 50) > 100


def test_reduced_precision_reaches_the_largest_product() -> None:
    """Under autocast the chunked loss is that of bfloat16 logits, as the plain one would be."""
    model, window = build(GPT2, LARGE).eval(), tokens(LARGE)
    with torch.autocast("cpu", torch.bfloat16):
        loss = losses.training_loss(model, window[:, :-1], window[:, 1:]).detach()
        outputs = model(window[:, :-1])
    assert outputs.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    exact = losses.training_loss(model, window[:, :-1], window[:, 1:]).detach()
    assert loss != exact
    assert float(loss) == pytest.approx(float(exact), rel=1e-2)
