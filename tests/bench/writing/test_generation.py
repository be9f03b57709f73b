"""Generation by the cache against full recomputation, enumeration and the laws of chance."""

import itertools
import math
from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from bench.writing.generation import sample
from models.generation import Continuation, beam_search, greedy
from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.built import model_or_skip, one_of_each_class

PROMPT = torch.tensor([3, 1, 0, 1, 3])
END = 2

on_every_class = pytest.mark.parametrize("name", one_of_each_class())


def model_of_text(name: str) -> Any:
    """A small model of 11 tokens in float64 whose predictions are far from uniform."""
    return sharpened(model_or_skip(name, "tokens"), noise=0.25)


def sharpened(model: nn.Module, noise: float, seed: int = 1) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                normal = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.add_(noise * normal)
    return model.eval()


def tiny(*, noise: float = 0.5, seed: int = 1, **options: Any) -> Any:
    specification = SequenceSpecification(maximum_length=64, vocabulary=4)
    torch.manual_seed(0)
    model = GPT2(specification, width=16, layers=1, heads=2, **options).double()
    return sharpened(model, noise, seed)


@torch.no_grad()
def log_probabilities(model: Any, texts: list[list[int]]) -> Tensor:
    """(texts, positions, tokens) of what follows the prompt and each token of texts of one length,
    by the whole forward pass."""
    continued = torch.tensor(texts, dtype=torch.int64)
    inputs = torch.cat([PROMPT.expand(len(texts), -1), continued], 1)
    return model(inputs)[:, len(PROMPT) - 1 :].log_softmax(-1)


def next_log_probabilities(model: Any, tokens: list[int]) -> Tensor:
    """Of all that can follow the prompt and ``tokens``."""
    return log_probabilities(model, [tokens])[0, -1]


def log_probability(model: Any, tokens: list[int]) -> float:
    by_position = log_probabilities(model, [tokens[:-1]])[0]
    return float(by_position.gather(1, torch.tensor(tokens)[:, None]).sum())


def assert_scored_by_the_forward_pass(model: Any, found: list[Continuation]) -> None:
    for one in found:
        expected = log_probability(model, one.tokens)
        assert_near(one.log_probability, expected, terms=20 * 1000, condition=1000)


def every_continuation(model: Any, length: int) -> list[Continuation]:
    """All of 4 tokens that end with the end mark, and all of the full length without one."""
    found = []
    for size in range(1, length + 1):
        for tokens in itertools.product(range(4), repeat=size):
            if END not in tokens[:-1] and (size == length or tokens[-1] == END):
                found.append(Continuation(list(tokens), log_probability(model, list(tokens))))
    return found


def recomputed_beam(
    model: Any, width: int, new_tokens: int, exponent: float = 0.0
) -> list[Continuation]:
    """Beam search that knows nothing but the forward pass of a whole text, and never gives up."""
    beam, finished = [Continuation([], 0.0)], []
    for _ in range(new_tokens):
        following = log_probabilities(model, [one.tokens for one in beam])[:, -1].tolist()
        extensions = [
            Continuation([*one.tokens, token], one.log_probability + value)
            for one, values in zip(beam, following, strict=True)
            for token, value in enumerate(values)
        ]
        extensions.sort(key=lambda one: -one.log_probability)
        finished += [one for one in extensions[:width] if one.tokens[-1] == END]
        beam = [one for one in extensions if one.tokens[-1] != END][:width]
    return best_first(finished + beam, exponent)[:width]


def best_first(found: list[Continuation], exponent: float) -> list[Continuation]:
    return sorted(found, key=lambda one: -one.log_probability / len(one.tokens) ** exponent)


@on_every_class
def test_greedy_equals_full_recomputation_token_by_token(name: str) -> None:
    model = model_of_text(name)
    expected: list[int] = []
    while len(expected) < 12:
        expected.append(int(next_log_probabilities(model, expected).argmax()))
    for found in (
        greedy(model, PROMPT, new_tokens=12),
        beam_search(model, PROMPT, width=1, new_tokens=12)[0],
    ):
        assert found.tokens == expected
        assert_scored_by_the_forward_pass(model, [found])
    end = expected[-1]
    stopped = greedy(model, PROMPT, new_tokens=12, end=end).tokens
    assert stopped == expected[: expected.index(end) + 1]


@on_every_class
def test_beam_search_equals_full_recomputation_token_by_token(name: str) -> None:
    model = model_of_text(name)
    found = beam_search(model, PROMPT, width=5, new_tokens=9, end=END)
    expected = recomputed_beam(model, 5, 9)
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert_scored_by_the_forward_pass(model, found)


@on_every_class
def test_samples_are_scored_by_the_forward_pass(name: str) -> None:
    model = model_of_text(name)
    found = sample(
        model, PROMPT, new_tokens=9, temperature=20.0, top_p=0.9, end=END, seed=3, count=4
    )
    assert len({tuple(one.tokens) for one in found}) > 1
    assert_scored_by_the_forward_pass(model, found)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_a_wide_beam_equals_exhaustive_search(exponent: float) -> None:
    model = tiny()
    expected = every_continuation(model, 4)
    assert sum(math.exp(one.log_probability) for one in expected) == pytest.approx(1, abs=1e-9)
    found = beam_search(model, PROMPT, width=200, new_tokens=4, end=END, length_exponent=exponent)
    assert [one.tokens for one in found] == [one.tokens for one in best_first(expected, exponent)]
    assert_scored_by_the_forward_pass(model, found[::7])


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_a_search_ends_early_only_when_nothing_better_can_come(exponent: float) -> None:
    """Models in which the end is likely, so that the beam is full of it after a few steps."""
    lengths = set()
    for seed in range(12):
        model = tiny(noise=0.15, seed=seed)
        for width in (1, 2, 3):
            found = beam_search(
                model, PROMPT, width=width, new_tokens=8, end=END, length_exponent=exponent
            )
            expected = recomputed_beam(model, width, 8, exponent)
            assert [one.tokens for one in found] == [one.tokens for one in expected]
            lengths |= {len(one.tokens) for one in found}
    assert len(lengths) > 4


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.5, 0.8), (1.0, 0.3)])
def test_samples_follow_the_distribution(temperature: float, top_p: float) -> None:
    """Two tokens at a time against probabilities by temperature and nucleus, step by step."""
    model = tiny()

    def distribution(tokens: list[int]) -> list[float]:
        powers = (next_log_probabilities(model, tokens) / temperature).exp()
        ranked = sorted(((p / powers.sum()).item(), token) for token, p in enumerate(powers))
        nucleus: dict[int, float] = {}
        for probability, token in reversed(ranked):
            nucleus[token] = probability
            if sum(nucleus.values()) >= top_p:
                break
        return [nucleus.get(token, 0.0) / sum(nucleus.values()) for token in range(4)]

    expected = torch.tensor(
        [[p * q for q in distribution([a])] for a, p in enumerate(distribution([]))]
    )
    found = sample(
        model, PROMPT, new_tokens=2, temperature=temperature, top_p=top_p, count=4000, seed=7
    )
    counts = torch.zeros(4, 4)
    for one in found:
        counts[one.tokens[0], one.tokens[1]] += 1
    possible = expected > 0
    assert not counts[~possible].any()
    if possible.sum() > 1:
        law = expected[possible].double()
        assert chisquare(counts[possible].double(), law / law.sum() * 4000).pvalue > 1e-3


def test_a_sample_is_a_function_of_seed_and_number_alone() -> None:
    model = tiny()

    def texts(**options: Any) -> list[list[int]]:
        found = sample(model, PROMPT, new_tokens=12, temperature=2.0, **options)
        return [one.tokens for one in found]

    torch.manual_seed(0)
    before = torch.get_rng_state()
    nine = texts(seed=4, count=9)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert texts(seed=4, count=2) == nine[:2]
    assert len({tuple(tokens) for tokens in nine}) == 9
    assert texts(seed=5) != nine[:1]
    ended = texts(seed=4, count=9, end=END)
    for tokens, whole in zip(ended, nine, strict=True):
        assert tokens == whole[: whole.index(END) + 1 if END in whole else None]
    assert len({len(tokens) for tokens in ended}) > 3  # they leave the batch at several times


@pytest.mark.parametrize("options", [{"temperature": 1e-3}, {"top_p": 1e-6}])
def test_the_limit_of_sampling_is_greedy(options: dict[str, Any]) -> None:
    model = tiny()
    expected = greedy(model, PROMPT, new_tokens=30)
    for one in sample(model, PROMPT, new_tokens=30, count=3, **options):
        assert one.tokens == expected.tokens
        assert one.log_probability == pytest.approx(expected.log_probability, abs=1e-9)


class OnlySteps(nn.Module):
    """A model of another author: no prefill, a state in a dict, and no forward pass at all."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.batches: list[int] = []

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        self.batches.append(len(inputs))
        outputs, inner = self.model.step(inputs, state and state["inner"])
        return outputs, {"inner": inner, "length": 1}


def test_one_step_for_each_token_and_no_prefill_needed() -> None:
    model = tiny()
    stepping = OnlySteps(model)
    found = beam_search(stepping, PROMPT, width=3, new_tokens=6)
    assert [one.tokens for one in found] == [
        one.tokens for one in beam_search(model, PROMPT, width=3, new_tokens=6)
    ]
    assert stepping.batches == [1] * 5 + [3] * 5


def test_a_model_is_used_without_dropout_and_left_in_its_mode() -> None:
    model = tiny(dropout=0.5)
    expected = greedy(model, PROMPT, new_tokens=10)
    model.train()
    again = greedy(model, PROMPT, new_tokens=10)
    assert again.tokens == expected.tokens
    assert_near(again.log_probability, expected.log_probability, terms=10 * 1000, condition=1000)
    assert model.training
    assert sample(model.eval(), PROMPT, new_tokens=1)[0].tokens
    assert not model.training


def test_up_to_the_last_learned_position() -> None:
    model = tiny()  # a table of 64
    assert len(greedy(model, PROMPT, new_tokens=60).tokens) == 60
    with pytest.raises(ValueError, match="has a table of 64: ask for at most 60 new tokens"):
        sample(model, PROMPT, new_tokens=61)
    with pytest.raises(ValueError, match="shorten the prompt"):
        greedy(model, torch.zeros(65, dtype=torch.int64), new_tokens=1)
    assert len(greedy(tiny(positions="rope"), PROMPT, new_tokens=61).tokens) == 61


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "width >= 1"),
        ({"width": 2, "length_exponent": -1.0}, "length_exponent >= 0"),
        ({"width": 2, "new_tokens": 0}, "new_tokens must be at least 1"),
        ({"temperature": 0.0}, "temperature > 0"),
        ({"top_p": 0.0}, "0 < top_p <= 1"),
        ({"top_p": 1.1}, "0 < top_p <= 1"),
        ({"count": 0}, "count >= 1"),
        ({"prompt": torch.zeros(0, dtype=torch.int64)}, "at least one int64 token"),
        ({"prompt": torch.zeros(1, 3, dtype=torch.int64)}, "at least one int64 token"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], words: str) -> None:
    generate: Any = beam_search if "width" in options else sample
    with pytest.raises(ValueError, match=words):
        generate(tiny(), **({"prompt": PROMPT, "new_tokens": 3} | options))


def test_a_diverged_model_is_refused() -> None:
    model = tiny()
    with torch.no_grad():
        model.norm.weight.fill_(math.nan)
    with pytest.raises(ValueError, match="it has diverged"):
        greedy(model, PROMPT, new_tokens=3)


def test_ids_that_only_fill_the_vocabulary_are_never_chosen() -> None:
    """Of 4 ids the last two stand for nothing; what is left is scored by the model as it is."""
    model = tiny()
    found = beam_search(model, PROMPT % 2, width=8, new_tokens=3, vocabulary=2)
    assert sorted(one.tokens for one in found) == [
        list(t) for t in itertools.product((0, 1), repeat=3)
    ]
    unrestricted = {
        tuple(one.tokens): one.log_probability
        for one in beam_search(model, PROMPT % 2, width=64, new_tokens=3)
    }
    for one in found:
        assert one.log_probability == pytest.approx(unrestricted[tuple(one.tokens)], abs=1e-12)
    drawn = sample(model, PROMPT % 2, new_tokens=20, count=5, vocabulary=2)
    assert {token for one in drawn for token in one.tokens} == {0, 1}
    assert max(greedy(model, PROMPT % 2, new_tokens=9, vocabulary=2).tokens) < 2
