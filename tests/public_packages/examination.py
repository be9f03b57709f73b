"""What must hold of a model whatever it has learned: causality, determinism, independence.

Each function takes a model that maps tokens (batch, time) to logits (batch, time, vocabulary).
"""

import torch
from torch import Tensor, nn

from tests.public_packages.comparing import NO, ROUNDING, YES, Comparison, Outcome, random_tokens

LENGTHS = (48, 37)
CUTS = (1, 3, 8, 15, 16, 21, 32)  # and before the last token
PREFIXES = (1, 2, 5, 16, 17, 31, 33)
# For packages with a loop in Python over positions, which take seconds for a call.
FEW_CUTS = (1, 16, 21)
FEW_PREFIXES = (1, 5, 16, 33)


def seeded(model: nn.Module, tokens: Tensor) -> Tensor:
    """Outputs under the same draws of torch, as dropout makes them in train mode."""
    torch.manual_seed(0)
    with torch.no_grad():
        return model(tokens)


def round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def causal_by_values(
    model: nn.Module, vocabulary: int, multiple: int, few: bool = False
) -> Outcome:
    """Other tokens from position ``cut`` on leave all outputs before it as they were."""
    comparison = Comparison()
    lengths, cuts = (LENGTHS[1:], FEW_CUTS) if few else (LENGTHS, CUTS)
    for length in sorted({round_up(length, multiple) for length in lengths}):
        tokens = random_tokens((2, length), vocabulary, seed=length)
        outputs = seeded(model, tokens)
        for cut in (*cuts, length - 1):
            changed = tokens.clone()
            changed[:, cut:] = (changed[:, cut:] + 1) % vocabulary
            past = seeded(model, changed)[:, :cut]
            comparison.add(past, outputs[:, :cut], f"{length} tokens, changed from {cut} on")
    return comparison.outcome()


def causal_by_prefixes(
    model: nn.Module, vocabulary: int, multiple: int, few: bool = False
) -> Outcome:
    """A prefix alone gives what it gives at the start of a longer sequence."""
    comparison = Comparison()
    length = round_up(LENGTHS[0], multiple)
    tokens = random_tokens((2, length), vocabulary, seed=5)
    outputs = seeded(model, tokens)
    prefixes = FEW_PREFIXES if few else PREFIXES
    for end in sorted({round_up(end, multiple) for end in prefixes}):
        case = f"the first {end} of {length} tokens"
        comparison.add(seeded(model, tokens[:, :end]), outputs[:, :end], case)
    return comparison.outcome()


def uses_past(model: nn.Module, vocabulary: int, multiple: int) -> Outcome:
    """Another token changes outputs after it: the model has a memory."""
    tokens = random_tokens((2, round_up(16, multiple)), vocabulary, seed=7)
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 1) % vocabulary
    comparison = Comparison()
    comparison.add(seeded(model, changed)[:, 1:], seeded(model, tokens)[:, 1:], "")
    if comparison.worst > ROUNDING:
        return Outcome(YES)
    where = "another first token leaves all outputs after it as they are"
    return Outcome(NO, comparison.worst, where)


def deterministic(model: nn.Module, vocabulary: int, multiple: int) -> Outcome:
    """The same inputs give the same outputs, also after other inputs of another length."""
    comparison = Comparison()
    tokens = random_tokens((2, round_up(LENGTHS[1], multiple)), vocabulary, seed=1)
    others = random_tokens((2, round_up(LENGTHS[0], multiple)), vocabulary, seed=2)
    with torch.no_grad():  # no seed is set in between: eval mode draws nothing
        first = model(tokens)
        comparison.add(model(tokens), first, "called twice")
        model(others)
        comparison.add(model(tokens), first, "called after other inputs")
    return comparison.outcome()


def batch_independent(model: nn.Module, vocabulary: int, multiple: int) -> Outcome:
    """The outputs of a sequence do not depend on the others of its batch."""
    comparison = Comparison()
    length = round_up(LENGTHS[1], multiple)
    batch = random_tokens((4, length), vocabulary, seed=3)
    outputs = seeded(model, batch)
    others = batch.clone()
    others[1:] = (others[1:] + 1) % vocabulary
    comparison.add(seeded(model, others)[0], outputs[0], "beside other sequences")
    if not model.training:  # dropout draws by the shape of the batch
        for row in (0, 3):
            alone = seeded(model, batch[row : row + 1])[0]
            comparison.add(alone, outputs[row], f"sequence {row} alone")
    return comparison.outcome()


def inputs_unchanged(model: nn.Module, vocabulary: int, multiple: int) -> Outcome:
    """No call writes to the tokens that it was given."""
    tokens = random_tokens((2, round_up(LENGTHS[1], multiple)), vocabulary, seed=4)
    before = tokens.clone()
    seeded(model, tokens)
    return Outcome(YES if torch.equal(tokens, before) else NO)


def numbers_at(model: nn.Module, vocabulary: int, length: int) -> Outcome:
    """Outputs are numbers at a length far beyond the trained one."""
    outputs = seeded(model, random_tokens((1, length), vocabulary, seed=6))
    finite = bool(torch.isfinite(outputs).all())
    return Outcome(YES if finite else NO, None, "" if finite else f"{length} tokens")
