"""How a sequence model of tokens goes on: sampling, and the searches of ``models.generation``.

As a search does, sampling takes one parallel pass over the prompt and then one ``step`` for each
new token.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from core.seeding import derive_seed
from models.generation import Continuation, check_request, evaluation_mode, read_prompt, select_rows


def sample(
    model: nn.Module,
    prompt: Tensor,
    *,
    new_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    end: int | None = None,
    vocabulary: int | None = None,
    seed: int = 0,
    count: int = 1,
) -> list[Continuation]:
    """Random continuations, ``count`` of them side by side.

    Sequence i is drawn with random numbers of its own, a function of (seed, i): it is the same
    whatever ``count`` is, and PyTorch's random state is neither used nor changed.

    Args:
        model: a sequence model of tokens; it is used in eval mode and left as it was.
        prompt: int64 (time,), at least one token, anywhere.
        new_tokens: the most tokens of a continuation, end mark included.
        temperature: logits are divided by it; towards 0 sampling becomes greedy.
        top_p: draw from the smallest set of tokens whose probabilities (at this temperature) sum
            to at least ``top_p`` (Holtzman et al. 2020, "The curious case of neural text
            degeneration", section 3.1).
        end: the token that ends a continuation; None lets all run to ``new_tokens``.
        vocabulary: tokens from here on are never drawn (see :func:`beam_search`).
        seed: see above.
        count: number of continuations.

    Returns:
        In the order of i. The log probabilities are those of the model itself, at temperature 1
        and over the whole vocabulary.

    Raises:
        ValueError: an argument is out of range, or the model cannot take so many positions.
    """
    check_request(model, prompt, new_tokens)
    if temperature <= 0 or not 0 < top_p <= 1 or count < 1:
        raise ValueError(
            "sampling needs temperature > 0, 0 < top_p <= 1 and count >= 1, got "
            f"temperature={temperature}, top_p={top_p} and count={count}"
        )
    draws = torch.empty(count, new_tokens, dtype=torch.float64)  # uniform in [0, 1)
    for index in range(count):
        generator = torch.Generator().manual_seed(derive_seed(seed, "sample", index))
        draws[index] = torch.rand(new_tokens, generator=generator, dtype=torch.float64)
    tokens: list[list[int]] = [[] for _ in range(count)]
    totals = [0.0] * count
    going = list(range(count))
    with evaluation_mode(model):
        logits, state = read_prompt(model, prompt)
        logits, state = logits.expand(count, -1), select_rows(state, [0] * count, 1)
        draws = draws.to(logits.device)
        for number in range(new_tokens):
            offered = logits[:, :vocabulary].double() / temperature
            drawn = _draw(offered, top_p, draws[going, number])
            chosen = logits.double().log_softmax(-1).gather(1, drawn[:, None]).squeeze(1)
            for index, token, value in zip(going, drawn.tolist(), chosen.tolist(), strict=True):
                tokens[index].append(token)
                totals[index] += value
            rows = [row for row, index in enumerate(going) if tokens[index][-1] != end]
            if not rows or number == new_tokens - 1:
                break
            logits, state = cast(Any, model).step(drawn[rows], select_rows(state, rows, len(going)))
            going = [going[row] for row in rows]
    return [Continuation(*pair) for pair in zip(tokens, totals, strict=True)]


def _draw(logits: Tensor, top_p: float, uniform: Tensor) -> Tensor:
    """One token for each row of logits (batch, vocabulary): the quantile at ``uniform`` (batch,)
    of the distribution cut to its nucleus, with tokens in the order of their probability."""
    probabilities, tokens = logits.softmax(-1).sort(stable=True, dim=-1, descending=True)
    sums = probabilities.cumsum(-1)
    # The nucleus ends at the first sum that reaches top_p (a sum may stay below 1 by rounding).
    last = torch.searchsorted(sums, sums.new_full((len(sums), 1), top_p))
    last = last.clamp(max=sums.shape[1] - 1)
    target = uniform[:, None] * sums.gather(1, last)
    place = torch.searchsorted(sums, target, right=True)
    return tokens.gather(1, torch.minimum(place, last)).squeeze(1)
