"""A model that was trained on stories meets an encyclopedia (Memory Mosaics, section 7, Figure 8).

The model can know such text only from the window itself, so the loss by position shows how it
learns in context. The paper does not say how its windows were cut. Three kinds are measured, the
same for every model:

- ``stream``: consecutive windows of all articles in one stream, spread evenly;
- ``article``: the first tokens of each article that is long enough, without a boundary inside;
- ``stories``: the validation file of the stories, as a control.

How much of it is learned from the context is measured in ``context.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tasks.babistories.task import BabiStories, manifest_facts
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.text.corpora import ARTICLE_SPLITS, SIZED, articles_corpus
from tasks.text.preparation import prepare
from tasks.text.stream import TokenStream
from tasks.text.windows import (
    Positions,
    article_starts,
    consecutive,
    cut,
    document_of,
    evenly,
    windows_sha256,
)
from tasks.wikipedia import context

BANDS = {"1_50": (0, 50), "51_150": (50, 150), "151_512": (150, 512)}  # positions from 0
BOOTSTRAP_SEED = 0
BOOTSTRAP_SAMPLES = 200
BIN = 8  # positions that the kept bootstrap samples are averaged over
DIGITS = 5  # of what is kept for drawing
SOURCES = ("auto", "grammar", "local", "simple_wikipedia")

Losses = NDArray[np.float64]


class Windows(NamedTuple):
    """A fixed list of windows.

    Attributes:
        starts: int64 (windows,), in the stream.
        documents: int64 (windows,): the document that each belongs to, by its first token.
    """

    stream: TokenStream
    starts: Positions
    documents: Positions


class Wikipedia(BabiStories):
    """Loss by position on articles and on stories, with intervals over articles.

    Example: ``articles_size=3, length=12``, the second window of the kind "article", of a model
    that was trained on stories. Bars divide tokens, and the mean loss is kept at each position:

        input   The| t|ho|sk|bill| is| a| fro|g| that| li|ves
        target   t|ho|sk|bill| is| a| fro|g| that| li|ves| in

    A model must learn from the window what it never saw in training, such as the name thoskbill;
    one that takes nothing from it has the same loss at late positions as at early ones.

    Args:
        articles: "grammar", "local", "simple_wikipedia", or "auto": local where ``wiki`` is given,
            else generated for generated stories, else Simple Wikipedia.
        wiki: file or folder of local articles.
        articles_size: articles of "grammar", or the first ones of "simple_wikipedia".
        articles_half: 1 or 2, of two halves of the articles by a hash of their text.
        windows: at most so many of each kind.
        context_articles: at most so many of the articles give targets for windows that begin
            earlier and earlier.
        training: arguments of :class:`tasks.babistories.BabiStories`.

    Raises:
        ValueError: an argument that cannot be used.
    """

    headline: ClassVar[Metric] = Metric("loss", "minimise", "nats per token")

    def __init__(
        self,
        *,
        articles: str = "auto",
        wiki: str | None = None,
        articles_size: int | None = None,
        articles_half: int | None = None,
        windows: int = 10_000,
        context_articles: int = 120,
        **training: Any,
    ) -> None:
        super().__init__(**training)
        if articles not in SOURCES:
            raise ValueError(f"articles must be one of {', '.join(SOURCES)}, got {articles!r}")
        for name, number in {"windows": windows, "context_articles": context_articles}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if articles == "auto":
            generated = self.corpus.name == "grammar" and wiki is None
            articles = "grammar" if generated else "simple_wikipedia" if wiki is None else "local"
        if articles_half not in (None, 1, 2):
            raise ValueError(f"articles_half must be 1 or 2, got {articles_half}")
        size = articles_size if articles in SIZED else None
        self.articles = articles_corpus(
            articles, path=wiki, size=size, seed=self.data_seed, half=articles_half
        )
        self.windows, self.context_articles = windows, context_articles
        self._articles: TokenStream | None = None

    def prepare(self, report: Report) -> None:
        """Tokenise the stories, then the articles."""
        super().prepare(report)
        self._article_stream(report)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of what stories are trained on, of the articles ("test") and of each list of
        windows."""
        hashes = super().data_hashes()
        hash_by_kind = {
            name: windows_sha256(windows.stream, windows.starts, self.length)
            for name, windows in self.kinds.items()
        }
        return {**hashes, "test": hash_by_kind.pop("stream"), **hash_by_kind}

    @cached_property
    def kinds(self) -> dict[str, Windows]:
        """The three lists of windows, the same for every model of these data."""
        articles, stories = self._article_stream(None), self.stream("valid")
        starts, documents = article_starts(articles, self.length)
        chosen = evenly(len(starts), self.windows)
        kinds = {"stream": self._spread(articles)}
        # Short windows of short articles: where none is long enough the kind is left out.
        if len(starts):
            kinds["article"] = Windows(articles, starts[chosen], documents[chosen])
        kinds["stories"] = self._spread(stories)
        if not len(kinds["stream"].starts):
            raise ValueError(
                f"the articles hold {articles.manifest.tokens:,} tokens, too few for one window of "
                f"{self.length}: give more text, or a smaller tasks.length"
            )
        return kinds

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """Of "validation" the loss on held-out stories: nothing may be chosen by the articles."""
        if split == "validation":
            return super().evaluate(model, split, device)
        evaluation = self._by_position(
            lambda w: self.window_losses(model, w.stream, w.starts, device)
        )
        return self._with_context(evaluation, lambda w: self.losses_of(model, w, device))

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Equal chances for all tokens, and their frequencies in the stories."""

        def fixed(counts: NDArray[np.float64]) -> Callable[[Split], Evaluation]:
            surprise = -np.log(counts / counts.sum())

            def evaluate(split: Split) -> Evaluation:
                if split == "validation":
                    return self._predictor(counts, split)
                return self._by_position(
                    lambda w: surprise[cut(w.stream, w.starts, self.length)[:, 1:]]
                )

            return evaluate

        return {
            "uniform": fixed(np.full(self.tokenizer.vocabulary, 1.0)),
            "unigram": lambda split: fixed(self.unigram_counts())(split),
        }

    def corpus_facts(self) -> dict[str, Any]:
        """Facts of the stories and of the articles."""
        facts = super().corpus_facts()
        return {**facts, "articles": manifest_facts(self._article_stream(None))}

    def _by_position(self, measure: Callable[[Windows], Losses]) -> Evaluation:
        metrics: dict[str, float] = {}
        curves: dict[str, dict[str, list[float]]] = {}
        arrays: dict[str, Any] = {"corpus": self.corpus_facts()}
        per_sequence: dict[str, list[float]] = {}
        positions = [float(p + 1) for p in range(self.length)]
        for name, windows in self.kinds.items():
            losses = measure(windows)
            mean = losses.mean(axis=0)
            curves[f"{name}_loss"] = {"x": positions, "y": mean.tolist()}
            metrics[f"{name}_loss"] = float(mean.mean())
            for band, (first, last) in self._bands().items():
                metrics[f"{name}_loss_{band}"] = float(mean[first:last].mean())
            samples = bootstrap_means(losses, windows.documents)
            # 95 % over articles drawn again: windows of one article are not independent.
            low, high = np.percentile(samples, [2.5, 97.5], axis=0)
            # What is kept of a record draws the curve and its interval without the losses of all
            # windows.
            arrays[name] = {
                "windows": len(losses),
                "documents": len(np.unique(windows.documents)),
                "low": low.round(DIGITS).tolist(),
                "high": high.round(DIGITS).tolist(),
                "samples": binned(samples).round(DIGITS).tolist(),
            }
            per_sequence[f"{name}_loss"] = losses.mean(axis=1).round(DIGITS).tolist()
        # The kind that is nearest to what the paper is likely to have done.
        metrics["loss"] = metrics["stream_loss"]
        return Evaluation(metrics, per_sequence, curves, arrays)

    def _with_context(self, found: Evaluation, measure: context.Measure) -> Evaluation:
        losses = context.repeated(self.length, self.tokenizer.vocabulary, measure)
        if "article" in self.kinds:
            articles = self.kinds["article"]
            chosen = articles.starts[evenly(len(articles.starts), self.context_articles)]
            losses |= context.same_targets(cut(articles.stream, chosen, self.length), measure)
        means = {name: float(values.mean()) for name, values in losses.items()}
        rounded = {name: values.round(DIGITS).tolist() for name, values in losses.items()}
        return replace(
            found,
            metrics={**found.metrics, **means},
            per_sequence={**found.per_sequence, **rounded},
        )

    def _bands(self) -> dict[str, tuple[int, int]]:
        """The bands that begin inside of a window; the last of them may be cut short."""
        return {
            name: (first, min(last, self.length))
            for name, (first, last) in BANDS.items()
            if first < self.length
        }

    def _spread(self, stream: TokenStream) -> Windows:
        # Windows that do not overlap, spread over the whole stream.
        all_starts = consecutive(0, stream.manifest.tokens, self.length)
        starts = all_starts[evenly(len(all_starts), self.windows)]
        return Windows(stream, starts, document_of(stream, starts))

    def _article_stream(self, report: Report | None) -> TokenStream:
        if self._articles is None:
            (split,) = ARTICLE_SPLITS
            self._articles = prepare(
                self.articles, split, self.tokenizer, self.folder, report=report
            )
        return self._articles


def bootstrap_means(losses: Losses, documents: Positions) -> Losses:
    """Mean loss by position when documents are drawn again, with replacement.

    The draws depend on the documents alone. So two models that are measured on the same windows
    are drawn alike, and the differences of their samples are those of a paired bootstrap.

    Args:
        losses: float64 (windows, length).
        documents: int64 (windows,); windows of one document are drawn together.

    Returns:
        float64 (samples, length)
    """
    names, group = np.unique(documents, return_inverse=True)
    totals = np.zeros((len(names), losses.shape[1]))
    # One sum for each document: windows of a document are not independent.
    np.add.at(totals, group, losses)
    sizes = np.bincount(group)
    raw = np.random.Philox(key=BOOTSTRAP_SEED).random_raw(BOOTSTRAP_SAMPLES * len(names))
    drawn = (raw % np.uint64(len(names))).astype(np.int64).reshape(BOOTSTRAP_SAMPLES, -1)
    weights = np.stack([np.bincount(row, minlength=len(names)) for row in drawn]).astype(float)
    # The mean over windows: documents count by how many they have.
    return (weights @ totals) / (weights @ sizes)[:, None]


def binned(samples: Losses) -> Losses:
    """Means over ``BIN`` neighbouring positions; the last bin may hold fewer."""
    edges = np.arange(0, samples.shape[1], BIN)
    sizes = np.diff(np.append(edges, samples.shape[1]))
    return np.add.reduceat(samples, edges, axis=1) / sizes
