"""Whether a state that is carried from call to call gives what one call on the whole gives.

All checks are made in eval mode and compare with ``forward`` on the whole sequence.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.public_packages.comparing import ABSENT, Comparison, Outcome, random_tokens
from tests.public_packages.contender import Contender, Wrapped

LENGTH = 40
PROMPTS = (1, 5, 16, 17, 32)
PIECES = ((2,), (3, 1), (5,), (8,), (16, 1, 7), (13,))


def whole(model: Wrapped, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        return model(tokens)


def in_pieces(
    model: Wrapped, tokens: Tensor, sizes: Sequence[int], state: Any = None
) -> tuple[Tensor, Any]:
    """Outputs of pieces whose sizes are taken in turn, and the last state."""
    outputs, start, turn = [], 0, 0
    with torch.no_grad():
        while start < tokens.shape[1]:
            piece = tokens[:, start : start + sizes[turn % len(sizes)]]
            logits, state = model.advance(piece, state)
            outputs.append(logits)
            start, turn = start + piece.shape[1], turn + 1
    return torch.cat(outputs, dim=1), state


def stepwise(model: Wrapped, vocabulary: int, batch: int) -> Outcome:
    """One token at a time from the start."""
    if not model.can_advance:
        return Outcome(ABSENT)
    comparison = Comparison()
    tokens = random_tokens((batch, LENGTH), vocabulary, seed=11)
    got, _ = in_pieces(model, tokens, [1])
    expected = whole(model, tokens)
    for position in range(LENGTH):
        comparison.add(got[:, position], expected[:, position], f"token {position + 1}")
    return comparison.outcome()


def after_prompts(model: Wrapped, contender: Contender, vocabulary: int) -> Outcome:
    """A prompt in one call, then one token at a time, at batch 1 and 2."""
    if not model.can_advance or contender.pieces == "one":
        return Outcome(ABSENT)
    comparison = Comparison()
    for batch in (1, 2):
        tokens = random_tokens((batch, LENGTH), vocabulary, seed=12)
        expected = whole(model, tokens)
        for prompt in PROMPTS:
            case = f"a prompt of {prompt} at batch {batch}, then single tokens"
            first, state = in_pieces(model, tokens[:, :prompt], [prompt])
            rest, _ = in_pieces(model, tokens[:, prompt:], [1], state)
            comparison.add(first[:, -1], expected[:, prompt - 1], case)
            comparison.add(rest, expected[:, prompt:], case)
    return comparison.outcome()


def several_pieces(model: Wrapped, contender: Contender, vocabulary: int) -> Outcome:
    """Pieces of several sizes, each in one call."""
    if not model.can_advance or contender.pieces != "any":
        return Outcome(ABSENT)
    comparison = Comparison()
    tokens = random_tokens((2, LENGTH), vocabulary, seed=13)
    expected = whole(model, tokens)
    for sizes in PIECES:
        got, _ = in_pieces(model, tokens, sizes)
        comparison.add(got, expected, f"pieces of {', '.join(map(str, sizes))} tokens")
    return comparison.outcome()


def interleaved(model: Wrapped, vocabulary: int) -> Outcome:
    """Two sequences go on in turn, each from its own state."""
    if not model.can_advance:
        return Outcome(ABSENT)
    comparison = Comparison()
    sequences = [random_tokens((1, LENGTH // 2), vocabulary, seed=seed) for seed in (14, 15)]
    # What each gives when it goes on alone: a state that is wrong by itself is another finding.
    expected = [in_pieces(model, tokens, [1])[0] for tokens in sequences]
    states: list[Any] = [None, None]
    with torch.no_grad():
        for position in range(LENGTH // 2):
            for index, tokens in enumerate(sequences):
                piece = tokens[:, position : position + 1]
                logits, states[index] = model.advance(piece, states[index])
                case = f"token {position + 1} of two sequences in turn"
                comparison.add(logits[:, 0], expected[index][:, position], case)
    return comparison.outcome()


def used_twice(model: Wrapped, vocabulary: int) -> Outcome:
    """A state can be gone on from twice, as in beam search: a call leaves the one it got alone.

    Where a call changes the state in place, users must copy it first.
    """
    if not model.can_advance:
        return Outcome(ABSENT)
    comparison = Comparison()
    tokens = random_tokens((1, LENGTH // 2), vocabulary, seed=16)
    one, other = random_tokens((2, 3), vocabulary, seed=17).split(1)
    _, state = in_pieces(model, tokens, [1])
    _, twin = in_pieces(model, tokens, [1])
    expected, _ = in_pieces(model, other, [1], twin)
    in_pieces(model, one, [1], state)
    got, _ = in_pieces(model, other, [1], state)
    comparison.add(got, expected, "a state from which another call went on before")
    return comparison.outcome()


def can_be_copied(model: Wrapped, vocabulary: int) -> Outcome:
    """A deep copy of a state goes on as the state does."""
    if not model.can_advance:
        return Outcome(ABSENT)
    comparison = Comparison()
    tokens = random_tokens((1, LENGTH // 2), vocabulary, seed=16)
    rest = random_tokens((1, 3), vocabulary, seed=17)
    _, state = in_pieces(model, tokens, [1])
    copied = copy.deepcopy(state)
    expected, _ = in_pieces(model, rest, [1], state)
    got, _ = in_pieces(model, rest, [1], copied)
    comparison.add(got, expected, "a deep copy of a state")
    return comparison.outcome()
