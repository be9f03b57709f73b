"""The likeliest continuations of a prompt: beam search and greedy search.

The search takes one parallel pass over the prompt (``prefill``, where the model offers it) and then
one ``step`` for each new token, so the cost of a token does not grow with recomputation. Scores are
sums of natural logarithms in float64 of the probabilities that the model gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Continuation:
    """What follows a prompt.

    Attributes:
        tokens: the new tokens, with the end mark if it was reached.
        log_probability: natural logarithm of the probability of these tokens after the prompt.
    """

    tokens: list[int]
    log_probability: float


def greedy(
    model: nn.Module,
    prompt: Tensor,
    *,
    new_tokens: int,
    end: int | None = None,
    vocabulary: int | None = None,
) -> Continuation:
    """The most probable token at each step; arguments and errors as in :func:`beam_search`."""
    return beam_search(
        model, prompt, width=1, new_tokens=new_tokens, end=end, vocabulary=vocabulary
    )[0]


def beam_search(
    model: nn.Module,
    prompt: Tensor,
    *,
    width: int,
    new_tokens: int,
    end: int | None = None,
    vocabulary: int | None = None,
    length_exponent: float = 0.0,
) -> list[Continuation]:
    """The most probable continuations that a beam of ``width`` hypotheses finds, best first.

    At each step the ``width`` best of all extensions are kept. Those that end with the end mark
    leave the beam with their score, and the next best extensions take their places. The search
    ends when ``new_tokens`` are there, or when no hypothesis can still come before the finished.

    Args:
        model: a sequence model of tokens; it is used in eval mode and left as it was.
        prompt: int64 (time,), at least one token, anywhere.
        width: hypotheses kept, and the most that are returned.
        new_tokens: the most tokens of a continuation, end mark included.
        end: the token that ends a continuation; None lets all run to ``new_tokens``.
        vocabulary: tokens from here on are never chosen: a padded vocabulary has ids that stand for
            nothing. Probabilities stay those of the model.
        length_exponent: hypotheses are compared by log probability / (number of tokens) to this
            power. 0 compares probabilities; 1 compares means, which favours longer texts.

    Raises:
        ValueError: an argument is out of range, or the model cannot take so many positions.
    """
    check_request(model, prompt, new_tokens)
    if width < 1 or length_exponent < 0:
        raise ValueError(
            f"a beam search needs width >= 1 and length_exponent >= 0, got width={width} and "
            f"length_exponent={length_exponent}"
        )

    def rank(hypothesis: Continuation) -> float:
        return hypothesis.log_probability / len(hypothesis.tokens) ** length_exponent

    with evaluation_mode(model):
        logits, state = read_prompt(model, prompt)
        beam = [Continuation([], 0.0)]
        finished: list[Continuation] = []
        for number in range(1, new_tokens + 1):
            size = len(beam)
            beam, parents, ended = _extend(beam, logits, width, end, vocabulary)
            finished = sorted(finished + ended, key=rank, reverse=True)[:width]
            if number == new_tokens or not beam:
                break
            # A log probability only falls, so no hypothesis can come to a better rank than this.
            hope = beam[0].log_probability / new_tokens**length_exponent
            if len(finished) == width and rank(finished[-1]) >= hope:
                break
            last = torch.tensor([h.tokens[-1] for h in beam], device=logits.device)
            logits, state = cast(Any, model).step(last, select_rows(state, parents, size))
    return sorted(finished + beam, key=rank, reverse=True)[:width]


def _extend(
    beam: list[Continuation], logits: Tensor, width: int, end: int | None, vocabulary: int | None
) -> tuple[list[Continuation], list[int], list[Continuation]]:
    """One step of a beam search.

    Returns:
        The next beam, best first; which hypothesis of the last one each of it extends; and those
        of the ``width`` best extensions that ended.
    """
    before = torch.tensor([h.log_probability for h in beam], dtype=torch.float64)
    scores = before.to(logits.device)[:, None] + logits.double().log_softmax(-1)
    scores = scores[:, :vocabulary]
    # Each hypothesis can end in one way only, so twice the width is enough to fill the beam.
    best = scores.flatten().topk(min(2 * width, scores.numel()))
    following: list[Continuation] = []
    parents: list[int] = []
    ended: list[Continuation] = []
    for place, (score, index) in enumerate(
        zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ):
        parent, token = divmod(index, scores.shape[1])
        extension = Continuation([*beam[parent].tokens, token], score)
        if token != end and len(following) < width:
            following.append(extension)
            parents.append(parent)
        # Endings count only among the ``width`` best extensions: those below were looked at only to
        # fill the beam.
        elif token == end and place < width:
            ended.append(extension)
    return following, parents, ended


def read_prompt(model: nn.Module, prompt: Tensor) -> tuple[Tensor, Any]:
    """Logits (1, vocabulary) of what follows the prompt, and the state after it."""
    tokens = prompt[None].to(next(model.parameters()).device)
    if hasattr(model, "prefill"):
        logits, state = cast(Any, model).prefill(tokens)
    else:
        state = None
        for token in tokens.unbind(1):
            logits, state = cast(Any, model).step(token, state)
    # topk takes NaN for the largest number: a diverged model would be given a text.
    if logits.isnan().any():
        raise ValueError("the model's outputs are not numbers: it has diverged, train it again")
    return logits, state


def select_rows(state: Any, rows: Sequence[int], size: int) -> Any:
    """The state of the sequences ``rows`` of a batch of ``size``."""
    # Greedy search, and a beam in unchanged order, need no copy of all caches.
    if list(rows) == list(range(size)):
        return state

    def choose(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf.index_select(0, torch.tensor(rows, device=leaf.device))

    return pytree.tree_map(choose, state)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without gradients and dropout; afterwards the model is in the mode that it was in."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def check_request(model: nn.Module, prompt: Tensor, new_tokens: int) -> None:
    """Refuse what cannot be continued.

    Raises:
        ValueError: not a prompt, no new tokens, or more positions than the model can take.
    """
    if prompt.dim() != 1 or prompt.dtype != torch.int64 or not len(prompt):
        raise ValueError(
            "a prompt is one row of at least one int64 token, got shape "
            f"{tuple(prompt.shape)} of {prompt.dtype}"
        )
    if new_tokens < 1:
        raise ValueError(f"new_tokens must be at least 1, got {new_tokens}")
    limit = getattr(model, "context_limit", None)
    needed = len(prompt) + new_tokens - 1  # the last token is not read again
    if limit is not None and needed > limit:
        room = limit + 1 - len(prompt)
        fewer = f"ask for at most {room} new tokens" if room > 0 else "shorten the prompt"
        raise ValueError(
            f"{len(prompt)} tokens of prompt and {new_tokens} new ones take {needed} positions, "
            f"but the model has a table of {limit}: {fewer}, or use a model without a table"
        )
