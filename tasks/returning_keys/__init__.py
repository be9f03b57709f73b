"""A stream in which keys come back: how much a memory of limited storage, or a hash, still finds.

Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394), section 8: limited storage could
leverage least-recently used eviction, and associative memories could be implemented otherwise, such
as by locality-sensitive hashing (Spring and Shrivastava 2017). The paper has no experiment; this
one is of this project.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple, cast, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.refusals import check_number
from tasks.seeds import generator_of
from tasks.zipf import zipf

CURVE = 8  # parts of a stream, in the curve of recall


class Stream(NamedTuple):
    """One stream for each trial.

    Attributes:
        keys, values: (trials, tokens, size), of length 1.
        drawn: int64 (trials, events), the tokens in their order.
        noise: (trials, events, size), directions of length 1.
    """

    keys: Tensor
    values: Tensor
    drawn: Tensor
    noise: Tensor


class ReturningKeys(Measurement):
    """Recall of keys that came before, in a stream of tokens by Zipf's law.

    At each event a token is drawn; the memory is asked by its key, and then its pair is written,
    whether it was there or not. What is answered is judged among the values of all tokens. Which
    tokens are frequent changes at each turn. Recall is the share of right answers about tokens that
    came before, in the second half of the stream.

    Example: 3 tokens, a table of 2 pairs that evicts the least recently used; + is found, - was
    evicted, and what comes first is not counted:

        token   0  1  0  2  0  1  2
        found         +     +  -  -
        held   0  01 01 02 02 01 12

    Args:
        size: d of keys and values.
        tokens: different ones.
        alpha: exponent of the Zipf law.
        events: of a stream.
        turn: events after which the frequent tokens are others.
        noise: σ of the query normalise(k + σ g), with a random direction g of length 1; 0 for none.
        trials: independent streams.

    Raises:
        ValueError: a number out of range.
    """

    headline = Metric("recall", "maximise")

    def __init__(
        self,
        size: int = 64,
        tokens: int = 256,
        alpha: float = 1.0,
        events: int = 2000,
        turn: int = 500,
        noise: float = 0.0,
        trials: int = 16,
    ) -> None:
        for name, number, least in (
            ("size", size, 1),
            ("tokens", tokens, 2),
            ("events", events, CURVE),
            ("turn", turn, 1),
            ("trials", trials, 1),
        ):
            if number < least:
                raise ValueError(f"{name}={number} is too small: give at least {least}")
        check_number("alpha", alpha, 0)
        if not 0 <= noise < float("inf"):
            raise ValueError(f"noise={noise}: give 0 for none, or a finite number above it")
        self.size, self.tokens, self.alpha, self.noise = size, tokens, alpha, noise
        self.events, self.turn, self.trials = events, turn, trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the streams of seed 0."""
        hashes = {}
        for split in get_args(Split):
            digest = hashlib.sha256()
            for part in self._draw(split, 0):
                digest.update(part.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """``recall``; ``state_bytes`` of one memory in the end; ``compared``, the share of what is
        stored that a read compares, for a memory that says so, else 1; the curve
        ``recall_by_event``, over all the stream."""
        stream = Stream(*(part.to(device) for part in self._draw(split, seed)))
        memory = cast(Memory, build(self.size, self.size, seed=seed))
        right, before, compared = [], [], []
        seen = torch.zeros(self.trials, self.tokens, dtype=torch.bool, device=device)
        trial = torch.arange(self.trials, device=device)
        with torch.no_grad():
            for event, tokens in enumerate(stream.drawn.unbind(1)):
                key = stream.keys[trial, tokens][:, None]
                value = stream.values[trial, tokens][:, None]
                # Asked before it is written: a key that comes for the first time has no answer yet.
                query = normalize(key + self.noise * stream.noise[:, event, None], dim=-1)
                answer = memory.read(query).values
                # No answer, or one that is no number, is right about nothing.
                there = answer.isfinite().all(-1) & (answer != 0).any(-1)
                found = (answer @ stream.values.mT).argmax(-1) == tokens[:, None]
                right.append((found & there)[:, 0])
                before.append(seen[trial, tokens])
                if not memory.is_empty:
                    compared.append(_compared(memory, query, seen))
                memory.write(key, value)
                seen[trial, tokens] = True
                report("events", event + 1, self.events)
        # The first half, while the memory fills, is in the curve alone.
        hits, known = torch.stack(right, 1), torch.stack(before, 1)
        late = slice(self.events // 2, None)
        recalls = _share(hits[:, late], known[:, late])
        evaluation = Evaluation({"recall": recalls.mean().item()})
        evaluation.arrays["recall"] = recalls.tolist()
        evaluation.metrics["state_bytes"] = memory.size_in_bytes() / self.trials
        # In the second half, as recall.
        evaluation.metrics["compared"] = torch.stack(compared[late]).mean().item()
        parts = zip(hits.chunk(CURVE, 1), known.chunk(CURVE, 1), strict=True)
        evaluation.curves["recall_by_event"] = {
            "x": [(part + 1) * self.events / CURVE for part in range(CURVE)],
            "y": [_share(*part).mean().item() for part in parts],
        }
        return evaluation

    def _draw(self, split: Split, seed: int) -> Stream:
        """float32 and int64, on the CPU."""
        generator = generator_of("returning_keys", split, seed)
        shape = (self.trials, self.tokens, self.size)
        keys, values = (normalize(torch.randn(shape, generator=generator), dim=-1) for _ in "kv")
        law = zipf(self.tokens, self.alpha)
        drawn = []
        for start in range(0, self.events, self.turn):
            count = min(self.turn, self.events - start)
            ranks = torch.multinomial(
                law.expand(self.trials, -1), count, replacement=True, generator=generator
            )
            # Which token has which rank: drawn anew at each turn, so that other keys are frequent.
            orders = torch.rand(self.trials, self.tokens, generator=generator).argsort(-1)
            drawn.append(orders.gather(1, ranks))
        noise = torch.randn(self.trials, self.events, self.size, generator=generator)
        return Stream(keys, values, torch.cat(drawn, 1), normalize(noise, dim=-1))


def _share(hits: Tensor, known: Tensor) -> Tensor:
    """float64 (trials,): of what was known, what was hit."""
    return (hits & known).sum(1).double() / known.sum(1).clamp(min=1)


def _compared(memory: Memory, query: Tensor, seen: Tensor) -> Tensor:
    """The mean share of all tokens that came so far which a read compares with the query."""
    if not hasattr(memory, "compared"):
        return torch.ones((), dtype=torch.float64, device=query.device)
    counts = memory.compared(query)[:, 0].double()  # type: ignore[operator]
    return (counts / seen.sum(1)).mean()
