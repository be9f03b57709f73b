"""Language modelling on tiny stories (Zhang et al., "Memory Mosaics", ICLR 2025, section 7).

Training windows start anywhere in the stream of all stories and ignore where stories end. The
reported number is the mean loss over the whole stream of the corpus's validation file. That file is
the test split here, since nothing is chosen by it. Choices are made by the validation split, which
is the end of the training file; no training window reaches into it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Report, Split, Task
from tasks.text import byte_pairs, losses
from tasks.text.corpora import SIZED, stories_corpus
from tasks.text.preparation import prepare
from tasks.text.stream import TokenStream
from tasks.text.tokenizers import Tokenizer, load_tokenizer
from tasks.text.windows import Positions, consecutive, cut, random_starts

ESTIMATE_SEED = 1337  # of the windows of the paper's kind of estimate; the same for every run
TOKENIZERS = ("auto", "gpt2", "grammar", "bpe")
VOCABULARY = 1024  # of "bpe"
WINDOWS_AT_ONCE = 1024  # whose tokens are in memory
PADDING_MULTIPLE = 64  # 50,257 tokens become 50,304, as published


FACTS = (
    "corpus",
    "licence",
    "source",
    "tokenizer",
    "tokens_sha256",
    "documents",
    "tokens",
    "tokens_without_ends",
    "characters",
    "bytes",
)


class BabiStories(Task):
    """Next-token prediction on a stream of stories.

    Example: ``corpus=grammar, stories_size=20, length=12``, training step 4 of seed 0, tokens
    divided by bars; the loss counts at every token, wherever the window begins:

        input   e|pper| b|ar|ked| and| wa|g|g|ed| its| t
        target  pper| b|ar|ked| and| wa|g|g|ed| its| t|ail

    A model must continue words by heart and who does what from the window. Without the window, by
    the frequency of each token alone (unigram), the loss of these data is 5.7 nats a token; 6.9 is
    a guess among the 1,024 tokens.

    Args:
        corpus: "grammar" (generated here), "local", "babistories" or "tinystories"; see
            :func:`tasks.text.corpora.stories_corpus`.
        stories: file or folder of the corpora "local" and "babistories".
        stories_size: training stories of "grammar", or the first ones of "tinystories".
        tokenizer: "gpt2", "grammar", "bpe" (learned from the training stories), or "auto": that of
            the grammar for its stories, else GPT-2's.
        vocabulary: tokens of "bpe" (1,024 if not given).
        length: tokens of a window; the paper has 512.
        held_out_tokens: about how many tokens of the training file, cut at the start of a story,
            are kept for validation.
        estimate_windows: random windows of the authors' estimate of a loss (5,120 in their code;
            the paper names no number).
        data_seed: of the grammar.
        prepared: folder of token streams, made once and used by all runs.

    Raises:
        ValueError: an argument that cannot be used.
    """

    headline: ClassVar[Metric] = Metric("loss", "minimise", "nats per token")

    def __init__(
        self,
        *,
        corpus: str = "grammar",
        stories: str | None = None,
        stories_size: int | None = None,
        tokenizer: str = "auto",
        vocabulary: int | None = None,
        length: int = 512,
        held_out_tokens: int = 262_144,
        estimate_windows: int = 5120,
        data_seed: int = 0,
        prepared: str = "runs/prepared",
    ) -> None:
        if tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer must be one of {', '.join(TOKENIZERS)}, got {tokenizer!r}")
        if vocabulary is not None and tokenizer != "bpe":
            raise ValueError(f"vocabulary={vocabulary} is for tokenizer=bpe, not for {tokenizer!r}")
        numbers = {"length": length, "held_out_tokens": held_out_tokens}
        numbers["estimate_windows"] = estimate_windows
        for name, number in numbers.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if data_seed < 0:
            raise ValueError(f"data_seed must be at least 0, got {data_seed}")
        size = stories_size if corpus in SIZED else None  # a preset gives it to every corpus
        self.corpus = stories_corpus(corpus, path=stories, size=size, seed=data_seed)
        self.tokenizer_name = tokenizer
        if tokenizer == "auto":
            self.tokenizer_name = "grammar" if corpus == "grammar" else "gpt2"
        self.vocabulary = VOCABULARY if vocabulary is None else vocabulary
        self.length = length
        self.held_out_tokens = held_out_tokens
        self.estimate_windows = estimate_windows
        self.data_seed = data_seed
        self.folder = Path(prepared)
        self._streams: dict[str, TokenStream] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of text and continuations."""
        return self._tokenizer(None)

    def prepare(self, report: Report) -> None:
        """Tokenise every split that is not there yet, and learn a tokenizer "bpe" before it."""
        self.tokenizer = self._tokenizer(report)
        for split in self.corpus.splits:
            self._prepared(split, report)
        self._check_sizes()

    def stream(self, split: str) -> TokenStream:
        """The prepared stream "train" or "valid"."""
        return self._prepared(split, None)

    def specification(self) -> SequenceSpecification:
        """Windows of ``length`` tokens; the vocabulary is rounded up to a multiple of 64."""
        padded = -(-self.tokenizer.vocabulary // PADDING_MULTIPLE) * PADDING_MULTIPLE
        return SequenceSpecification(self.length, vocabulary=padded)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the training tokens, of those held out of them ("validation") and of the
        validation file ("test")."""
        self._check_sizes()
        train = self.stream("train").manifest
        parts = {"train": (0, self.training_tokens), "validation": (self.training_tokens, None)}
        hashes = {
            # The split of one file is named by its hash and the bounds, so that no text is hashed
            # twice.
            name: hashlib.sha256(f"{train.tokens_sha256}:{bounds}".encode()).hexdigest()
            for name, bounds in parts.items()
        }
        return {**hashes, "test": self.stream("valid").manifest.tokens_sha256}

    @cached_property
    def training_tokens(self) -> int:
        """How many tokens of the training file are trained on: where the part that is held out
        begins."""
        starts = np.asarray(self.stream("train").starts)
        wanted = self.stream("train").manifest.tokens - self.held_out_tokens
        # The first story that starts at or after the wanted place: no story is in both parts.
        return int(starts[np.searchsorted(starts, wanted)]) if wanted > 0 else 0

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """Windows that start anywhere, with replacement; a function of (seed, step, size)."""
        # A window has length + 1 tokens, and none may reach into what is held out.
        places = self.training_tokens - self.length
        return self._batch(self.stream("train"), random_starts(seed, step, size, places))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy in nats per token, in float32."""
        return functional.cross_entropy(outputs.flatten(0, 1).float(), batch.targets.flatten())

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The same without all logits at once where the model offers its hidden vectors."""
        return losses.training_loss(model, batch.inputs, batch.targets)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """Loss in nats per token and bits per byte over consecutive windows; of "test" also the two
        estimates over random windows, ``window_loss`` and ``train_loss``."""
        stream, starts = self.evaluation_windows(split)
        measured = self.window_losses(model, stream, starts, device)
        metrics = self._metrics(measured, stream)
        if split == "test":
            for name, (of, places) in self._estimates().items():
                estimate = self.window_losses(model, of, places, device)
                metrics[name] = float(estimate.mean())
        per_window = measured.mean(axis=1).tolist()
        return Evaluation(metrics, {"loss": per_window}, arrays={"corpus": self.corpus_facts()})

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """Mean over the tokens that are held out of the training file, in nats."""
        stream, starts = self.evaluation_windows("validation")
        return float(self.window_losses(model, stream, starts, device).mean())

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Equal chances for all tokens, and their frequencies in training."""
        return {
            "uniform": partial(self._predictor, np.full(self.tokenizer.vocabulary, 1.0)),
            "unigram": lambda split: self._predictor(self.unigram_counts(), split),
        }

    def evaluation_windows(self, split: Split) -> tuple[TokenStream, Positions]:
        """The stream of a split, and the starts of its consecutive windows."""
        if split == "test":
            stream = self.stream("valid")
            return stream, consecutive(0, stream.manifest.tokens, self.length)
        stream = self.stream("train")
        return stream, consecutive(self.training_tokens, stream.manifest.tokens, self.length)

    def window_losses(
        self,
        model: nn.Module,
        stream: TokenStream,
        starts: Positions,
        device: torch.device | str,
        length: int | None = None,
    ) -> NDArray[np.float64]:
        """Loss of each target in nats, float64 (windows, length)."""
        length = length or self.length
        parts = [starts[i : i + WINDOWS_AT_ONCE] for i in range(0, len(starts), WINDOWS_AT_ONCE)]
        return np.concatenate(
            [self.losses_of(model, cut(stream, part, length), device) for part in parts]
        )

    def losses_of(
        self, model: nn.Module, windows: NDArray[np.int64], device: torch.device | str
    ) -> NDArray[np.float64]:
        """The same for tokens that are given, int64 (windows, length + 1)."""
        rows = losses.rows_at_once(model, windows.shape[1] - 1, self.specification().output_size)
        parts = []
        for window in torch.from_numpy(windows).split(rows):
            window = window.to(device)
            window_losses = losses.token_losses(model, window[:, :-1], window[:, 1:])
            parts.append(window_losses.double().cpu().numpy())
        return np.concatenate(parts)

    def unigram_counts(self) -> NDArray[np.float64]:
        """Float64 (vocabulary,): how often each token occurs in training, and once more."""
        # Only training tokens: a predictor that counts the held-out ones would be told.
        tokens = np.asarray(self.stream("train").tokens)[: self.training_tokens]
        # Once more than it occurs: no token has the probability 0.
        return np.bincount(tokens, minlength=self.tokenizer.vocabulary).astype(np.float64) + 1

    def corpus_facts(self) -> dict[str, Any]:
        """Name, licence, hash and counts of each file (Table 1 of the paper)."""
        return {split: manifest_facts(self.stream(split)) for split in self.corpus.splits}

    def _tokenizer(self, report: Report | None) -> Tokenizer:
        if self.tokenizer_name == byte_pairs.NAME:
            return byte_pairs.tokenizer_of(self.corpus, self.vocabulary, self.folder, report)
        return load_tokenizer(self.tokenizer_name)

    def _prepared(self, split: str, report: Report | None) -> TokenStream:
        if split not in self._streams:
            self._streams[split] = prepare(
                self.corpus, split, self.tokenizer, self.folder, report=report
            )
        return self._streams[split]

    def _check_sizes(self) -> None:
        """Refuse what has no place for one window."""
        train, valid = (self.stream(split).manifest.tokens for split in ("train", "valid"))
        held_out = train - self.training_tokens
        if min(self.training_tokens, held_out, valid) <= self.length:
            remedy = "a larger corpus, or smaller tasks.length and tasks.held_out_tokens"
            if held_out <= self.length:
                remedy = self._room_for_held_out()
            raise ValueError(
                f"windows of {self.length} tokens do not fit: {self.training_tokens:,} tokens are "
                f"for training, {held_out:,} held out of it and {valid:,} in the validation file; "
                f"choose {remedy}"
            )

    def _room_for_held_out(self) -> str:
        """What helps where the documents that are held out have no place for one window."""
        starts = np.asarray(self.stream("train").starts)
        total = int(starts[-1])
        fitting = total - starts[total - starts > self.length]
        if not len(fitting) or total - fitting[-1] <= self.length:
            return "a larger corpus, shorter documents or a smaller tasks.length"
        last = total - int(starts[-2])
        other = "shorter documents" if last > self.held_out_tokens else "a smaller tasks.length"
        return (
            f"a larger tasks.held_out_tokens, at least {fitting[-1]:,} here (whole documents are "
            f"held out, the last has {last:,} tokens), or {other}"
        )

    def _batch(self, stream: TokenStream, starts: Positions) -> Batch:
        window = torch.from_numpy(cut(stream, starts, self.length))
        return Batch(window[:, :-1], window[:, 1:], tokens=len(starts) * self.length)

    def _estimates(self) -> dict[str, tuple[TokenStream, Positions]]:
        """Random windows of validation and training, as the authors' code draws them."""
        train, valid = self.stream("train"), self.stream("valid")
        # Both estimates have the same seed for every model and run: they differ by the model alone.
        count = self.estimate_windows
        return {
            "window_loss": (
                valid,
                random_starts(ESTIMATE_SEED, 0, count, valid.manifest.tokens - self.length),
            ),
            "train_loss": (
                train,
                random_starts(ESTIMATE_SEED, 1, count, self.training_tokens - self.length),
            ),
        }

    def _metrics(self, measured: NDArray[np.float64], stream: TokenStream) -> dict[str, float]:
        loss = float(measured.mean())
        facts = stream.manifest
        return {
            "loss": loss,
            # Of any tokenizer: nats per token, over the bytes of text that a token stands for.
            "bits_per_byte": loss / math.log(2) * facts.tokens / facts.bytes,
        }

    def _predictor(self, counts: NDArray[np.float64], split: Split) -> Evaluation:
        """A fixed distribution over tokens."""
        stream, starts = self.evaluation_windows(split)
        # Nats of each token, looked up at all targets.
        surprise = -np.log(counts / counts.sum())
        measured = surprise[cut(stream, starts, self.length)[:, 1:]]
        metrics = self._metrics(measured, stream)
        if split == "test":
            for name, (of, places) in self._estimates().items():
                metrics[name] = float(surprise[cut(of, places, self.length)[:, 1:]].mean())
        per_window = measured.mean(axis=1).tolist()
        return Evaluation(metrics, {"loss": per_window}, arrays={"corpus": self.corpus_facts()})


def manifest_facts(stream: TokenStream) -> dict[str, Any]:
    """What a record says of a stream."""
    return {name: getattr(stream.manifest, name) for name in FACTS}
