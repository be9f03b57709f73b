"""Stories and the encyclopedia by position, against plain loops in float64."""

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from models.gpt2 import GPT2
from models.memory_mosaic import MemoryMosaic
from tasks.babistories import BabiStories
from tasks.text.errors import TextError
from tasks.wikipedia import Wikipedia, context
from tasks.wikipedia.task import BIN, binned, bootstrap_means
from tests.closeness import assert_near

SMALL: dict[str, Any] = {
    "stories_size": 200,
    "length": 40,
    "held_out_tokens": 2000,
    "estimate_windows": 7,
}
ARTICLES: dict[str, Any] = {"articles_size": 12, "windows": 20}
# Losses in float32 are logarithms of sums over 1024 tokens, which are off by the relative errors of
# the sums and of one layer; the truth is in float64.
LOSS: dict[str, Any] = {"terms": 1024 + 300, "largest": 1.0, "dtype": torch.float32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def stories(folder: str) -> BabiStories:
    return BabiStories(**SMALL, prepared=folder)


@pytest.fixture(scope="module")
def wikipedia(folder: str) -> Wikipedia:
    return Wikipedia(**SMALL, **ARTICLES, prepared=folder)


def trained_a_little(task: BabiStories, kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    model = kind(task.specification(), width=16, layers=1, heads=2, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(15):
        optimizer.zero_grad()
        task.training_loss(model, task.training_batch(0, step, 8)).backward()
        optimizer.step()
    return model.eval()


def plain_losses(model: nn.Module, window: list[int]) -> list[float]:
    """Loss of each target of one window, one position at a time, in float64."""
    outputs = model.double()(torch.tensor([window[:-1]]))[0]
    model.float()
    found = []
    for position, target in enumerate(window[1:]):
        scores = outputs[position].tolist()
        top = max(scores)
        found.append(top + math.log(sum(math.exp(s - top) for s in scores)) - scores[target])
    return found


@torch.no_grad()
@pytest.mark.parametrize("kind", [GPT2, MemoryMosaic])
def test_losses_by_position_equal_a_plain_loop(wikipedia: Wikipedia, kind: type[nn.Module]) -> None:
    with torch.enable_grad():
        model = trained_a_little(wikipedia, kind)
    evaluation = wikipedia.evaluate(model, "test", "cpu")
    for name, windows in wikipedia.kinds.items():
        tokens = windows.stream.tokens.tolist()
        loops = [plain_losses(model, tokens[s : s + 41]) for s in windows.starts.tolist()]
        by_position = evaluation.curves[f"{name}_loss"]
        assert by_position["x"] == list(range(1, 41))
        assert_near(np.array(by_position["y"]), np.mean(loops, axis=0), **LOSS)
        assert_near(evaluation.metrics[f"{name}_loss_1_50"], np.mean(loops), **LOSS)
        assert f"{name}_loss_51_150" not in evaluation.metrics  # windows are shorter
    assert evaluation.metrics["loss"] == evaluation.metrics["stream_loss"]
    json.dumps(vars(evaluation), allow_nan=False)


@torch.no_grad()
def test_the_same_targets_are_scored_with_more_and_more_context(wikipedia: Wikipedia) -> None:
    # Loss of the last 20 targets of an article, by hand, one token at a time.
    with torch.enable_grad():
        model = trained_a_little(wikipedia, GPT2)
    metrics = wikipedia.evaluate(model, "test", "cpu").metrics
    articles = wikipedia.kinds["article"]
    windows = [articles.stream.tokens[s : s + 41].astype(np.int64) for s in articles.starts]
    targets = context.targets_of(40)
    assert (targets, context.contexts(40)) == (20, [0, 20])

    def score(before: list[int], scored: list[int]) -> float:
        losses = []
        for place, token in enumerate(scored[1:], 1):
            logits = model(torch.tensor([before + scored[:place]]))[0, -1]
            losses.append(-float(logits.log_softmax(-1)[token]))
        return sum(losses) / len(losses)

    given = [w.tolist() for w in windows]
    none = [score([], w[20:]) for w in given]
    whole = [score(w[:20], w[20:]) for w in given]
    other = [score(a[:20], b[20:]) for a, b in pairwise([given[-1], *given])]
    assert_near(metrics["context_0_loss"], np.mean(none), **LOSS)
    assert_near(metrics["context_20_loss"], np.mean(whole), **LOSS)
    assert_near(metrics["other_context_loss"], np.mean(other), **LOSS)


class Copier(nn.Module):
    """Knows what followed a token before, and nothing else."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = torch.zeros(*inputs.shape, 1024)
        for row, tokens in enumerate(inputs.tolist()):
            seen: dict[int, int] = {}
            for place, token in enumerate(tokens):
                if place:
                    seen[tokens[place - 1]] = token
                if token in seen:
                    outputs[row, place, seen[token]] = 20.0
        return outputs


def test_only_who_copies_reads_random_tokens_better_the_second_time(wikipedia: Wikipedia) -> None:
    def measure(windows: np.ndarray) -> np.ndarray:
        return wikipedia.losses_of(Copier(), windows, "cpu")

    found = context.repeated(40, 1024, measure)
    assert found["repeat_first_loss"].mean() > math.log(1024) - 0.01
    assert found["repeat_second_loss"].mean() < 0.5
    uniform = context.repeated(40, 1024, lambda w: np.full((len(w), w.shape[1] - 1), 3.0))
    assert {float(losses.mean()) for losses in uniform.values()} == {3.0}


@torch.no_grad()
def test_the_loss_on_stories_is_that_of_the_whole_validation_file(stories: BabiStories) -> None:
    with torch.enable_grad():
        model = trained_a_little(stories, GPT2)
    tokens = stories.stream("valid").tokens.tolist()
    loops = [
        plain_losses(model, tokens[start : start + 41]) for start in range(0, len(tokens) - 40, 40)
    ]
    evaluation = stories.evaluate(model, "test", "cpu")
    assert_near(evaluation.metrics["loss"], np.mean(loops), **LOSS)
    text = stories.tokenizer.decode(tokens).replace("<|endoftext|>", "")
    bits = np.mean(loops) / math.log(2) * len(tokens) / len(text.encode())
    assert_near(evaluation.metrics["bits_per_byte"], bits, **LOSS)
    expected = stories.evaluate(model, "validation", "cpu").metrics["loss"]
    assert_near(stories.validation_loss(model, "cpu"), expected, **LOSS)


def test_training_never_sees_what_is_held_out(stories: BabiStories) -> None:
    train = stories.stream("train")
    border = stories.training_tokens
    assert border in train.starts
    assert train.manifest.tokens - border >= 1500
    held_out = train.tokens[border:].tolist()
    starts = stories.evaluation_windows("validation")[1]
    assert starts.min() == border
    tokens = train.tokens.tolist()
    places = {tuple(tokens[p : p + 41]): p for p in range(border - 40)}
    seen = set()
    for step in range(50):
        batch = stories.training_batch(1, step, 4)
        rows = torch.cat((batch.inputs, batch.targets[:, -1:]), dim=1).tolist()
        for row in rows:
            assert tuple(row) in places, "a training window is a slice of the part for training"
            seen.add(places[tuple(row)])
    assert len(seen) > 190  # of 200 draws
    assert held_out != tokens[: len(held_out)]


def test_every_model_meets_the_same_windows_whatever_the_folder(tmp_path: Path) -> None:
    first = Wikipedia(**SMALL, **ARTICLES, prepared=str(tmp_path / "a")).data_hashes()
    second = Wikipedia(**SMALL, **ARTICLES, prepared=str(tmp_path / "b")).data_hashes()
    assert first == second
    fewer = Wikipedia(**SMALL, **{**ARTICLES, "windows": 19}, prepared=str(tmp_path / "a"))
    changed = fewer.data_hashes()
    assert {name for name in first if first[name] != changed[name]} >= {"test", "stories"}
    assert first["train"] == changed["train"]


def test_predictors_have_their_exact_losses(stories: BabiStories, wikipedia: Wikipedia) -> None:
    uniform = stories.baselines()["uniform"]("test").metrics["loss"]
    assert uniform == pytest.approx(math.log(1024), abs=1e-12)
    train = stories.stream("train").tokens[: stories.training_tokens].tolist()
    counts = {token: train.count(token) for token in set(train)}
    valid = stories.stream("valid").tokens.tolist()
    asked = valid[1 : (len(valid) - 1) // 40 * 40 + 1]
    total = len(train) + 1024
    expected = np.mean([-math.log((counts.get(token, 0) + 1) / total) for token in asked])
    found = stories.baselines()["unigram"]("test").metrics["loss"]
    assert found == pytest.approx(expected, rel=1e-9)
    on_articles = wikipedia.baselines()["unigram"]("test")
    assert on_articles.metrics["loss"] > found  # articles are another distribution


def test_a_bootstrap_draws_whole_documents_and_the_same_for_every_model() -> None:
    documents = np.array([4, 4, 4, 9, 11, 11])
    constant = {4: 1.0, 9: 10.0, 11: 100.0}
    losses = np.array([[constant[d]] * 3 for d in documents.tolist()])
    samples = bootstrap_means(losses, documents)
    sizes = {4: 3, 9: 1, 11: 2}
    possible = set()
    for a in range(4):
        for b in range(4 - a):
            drawn = {4: a, 9: b, 11: 3 - a - b}
            weight = sum(drawn[d] * sizes[d] for d in drawn)
            possible.add(round(sum(drawn[d] * sizes[d] * constant[d] for d in drawn) / weight, 9))
    assert {round(v, 9) for v in samples[:, 0].tolist()} <= possible
    assert len({round(v, 9) for v in samples[:, 0].tolist()}) > 5
    shifted = bootstrap_means(losses + 0.25, documents)
    np.testing.assert_allclose(shifted - samples, 0.25, atol=1e-12)


def test_bootstrap_intervals_cover_the_mean_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        documents = np.repeat(np.arange(40), 2)
        effect = np.repeat(generator.normal(size=40), 2)
        losses = (effect + generator.normal(size=80))[:, None]
        low, high = np.percentile(bootstrap_means(losses, documents), [2.5, 97.5])
        hits += low < 0 < high
    assert 0.88 < hits / 300 < 0.99


def test_bins_are_means_of_neighbours() -> None:
    samples = np.arange(2.0 * 19).reshape(2, 19)
    bins = [samples[:, k : k + BIN].mean(axis=1) for k in range(0, 19, BIN)]
    np.testing.assert_allclose(binned(samples), np.stack(bins, axis=1))


def test_what_is_too_small_or_unknown_is_one_sentence(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        BabiStories(**{**SMALL, "length": 5000}, prepared=folder).data_hashes()
    places = {"wiki": _one_short_article(tmp_path), "prepared": folder}
    short = Wikipedia(**SMALL, windows=3, articles="local", **places)
    with pytest.raises(ValueError, match="too few for one window"):
        short.data_hashes()
    with pytest.raises(TextError, match="grammar, local, babistories, tinystories"):
        BabiStories(corpus="shakespeare")


@pytest.mark.parametrize(
    ("held_out", "words", "other"),
    [(500, 2000, "shorter documents"), (30, 5, r"a smaller tasks\.length")],
)
def test_held_out_documents_without_a_window_ask_for_the_number_that_suffices(
    tmp_path: Path, held_out: int, words: int, other: str
) -> None:
    lines = [*(f"Ana saw river {n} ." for n in range(900)), "the sea " * words]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    (tmp_path / "valid.txt").write_text("\n".join(lines[:200]))

    def task(tokens: int) -> BabiStories:
        return BabiStories(
            corpus="local",
            stories=str(tmp_path),
            tokenizer="grammar",
            length=40,
            held_out_tokens=tokens,
            prepared=str(tmp_path / "prepared"),
        )

    sentence = rf"choose a larger tasks\.held_out_tokens, at least ([\d,]+) .* or {other}$"
    with pytest.raises(ValueError, match=sentence) as caught:
        task(held_out).data_hashes()
    found = re.search(sentence, str(caught.value))
    assert found
    least = int(found[1].replace(",", ""))
    task(least).data_hashes()
    with pytest.raises(ValueError, match=sentence):
        task(least - 1).data_hashes()


def _one_short_article(folder: Path) -> str:
    path = folder / "articles.txt"
    path.write_text("A very short article about the river Iva.\n")
    return str(path)
