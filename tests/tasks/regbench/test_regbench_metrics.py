"""Metrics and untrained predictors of RegBench against loops written from their definitions."""

import math
import time
from collections import Counter

import numpy as np
import pytest

from tasks.regbench import RegBench
from tasks.regbench.automata import SEPARATOR, Language
from tasks.regbench.generator import Sequences, generate
from tasks.regbench.metrics import measure
from tasks.regbench.predictors import ngram

START = -1


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    language = Language(strings=(1, 5), string_length=(2, 9))
    return generate(language, 0, {"train": 1, "validation": 1, "test": 30})["test"]


@pytest.fixture(scope="module")
def published() -> RegBench:
    return RegBench(training_automata=1)


def rows_of(sequences: Sequences) -> list[tuple[list[int], list[int]]]:
    """(tokens, legal) of every sequence."""
    parts = [slice(*sequences.offsets[i : i + 2]) for i in range(len(sequences))]
    return [(sequences.tokens[p].tolist(), sequences.legal[p].tolist()) for p in parts]


def test_measure_equals_a_loop_over_positions(sequences: Sequences) -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=(len(sequences.tokens) - len(sequences), 20)) * 3
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = measure(logits, sequences)

    position = 0
    names = ("accuracy", "tvd", "loss", "token_accuracy", "accuracy_last", "tvd_last")
    totals: dict[str, list[float]] = {name: [] for name in names}
    by_sequence: dict[str, list[float]] = {"accuracy": [], "tvd": [], "loss": []}
    by_place: dict[str, dict[int, list[float]]] = {"accuracy": {}, "tvd": {}}
    for tokens, legal in rows_of(sequences):
        mine: dict[str, list[float]] = {name: [] for name in names}
        for t in range(len(tokens) - 1):
            probabilities = [math.exp(x) for x in logits[position]]
            allowed = [c for c in range(20) if legal[t] >> c & 1]
            truth = [1 / len(allowed) if c in allowed else 0.0 for c in range(20)]
            distance = sum(abs(p - q) for p, q in zip(probabilities, truth, strict=True)) / 2
            guess = probabilities.index(max(probabilities))
            mine["tvd"].append(distance)
            by_place["tvd"].setdefault(t + 1, []).append(distance)
            if tokens[t + 1] != SEPARATOR:
                valid = float(guess in allowed)
                mine["accuracy"].append(valid)
                by_place["accuracy"].setdefault(t + 1, []).append(valid)
                mine["loss"].append(-logits[position][tokens[t + 1]])
                mine["token_accuracy"].append(float(guess == tokens[t + 1]))
            position += 1
        mine["accuracy_last"], mine["tvd_last"] = mine["accuracy"][-1:], mine["tvd"][-1:]
        for name in names:
            totals[name] += mine[name]
        for name, values in by_sequence.items():
            values.append(float(np.mean(mine[name])))

    assert found.metrics == pytest.approx({name: np.mean(totals[name]) for name in names})
    for name, values in by_sequence.items():
        assert found.per_sequence[name] == pytest.approx(values)
    for name, places in by_place.items():
        assert found.curves[name]["x"] == sorted(places)
        assert found.curves[name]["y"] == pytest.approx(
            [np.mean(places[x]) for x in sorted(places)]
        )


def test_curves_end_at_300_tokens(published: RegBench) -> None:
    curve = published.baselines()["uniform"]("test").curves["tvd"]
    assert curve["x"] == list(range(1, 301))


def slow_ngram(tokens: list[int], order: int) -> list[list[float]]:
    """Back-off by its definition, from the prefix alone, with dictionaries."""

    def estimate(strings: list[list[int]], size: int, vocabulary: set[int]) -> dict[int, float]:
        texts = [[START] * (order - 1) + string for string in strings]
        grams = Counter(
            tuple(text[i : i + size]) for text in texts for i in range(len(text) - size + 1)
        )
        if size == 1:
            total = sum(grams.values())
            return {c: grams[c,] / total for c in vocabulary}
        contexts = Counter(
            tuple(text[i : i + size - 1]) for text in texts for i in range(len(text) - size + 2)
        )
        context = tuple(texts[-1][len(texts[-1]) - size + 1 :])
        result = {c: grams[*context, c] / contexts[context] for c in vocabulary}
        lower = estimate(strings, size - 1, vocabulary)
        unseen = {c: lower[c] for c in vocabulary if result[c] == 0}
        left = 1 - sum(result.values())
        for c, weight in unseen.items():
            result[c] = left * weight / sum(unseen.values())
        return result

    predictions = []
    for t in range(len(tokens) - 1):
        strings: list[list[int]] = [[]]
        for token in tokens[: t + 1]:
            if token == SEPARATOR:
                strings.append([])
            else:
                strings[-1].append(token)
        shares = estimate(strings, order, set(tokens[: t + 1]) - {SEPARATOR})
        predictions.append([shares.get(c, 0.0) for c in range(20)])
    return predictions


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_ngram_equals_counting_with_dictionaries(sequences: Sequences, order: int) -> None:
    expected = [row for tokens, _ in rows_of(sequences) for row in slow_ngram(tokens, order)]
    np.testing.assert_allclose(ngram(sequences, order), expected, atol=1e-12)


# Akyürek et al. 2024 print 0.337 / 0.834 and 0.265 / 0.937 for orders 2 and 3; the other levels
# come from an independent generator with 300 automata.
@pytest.mark.parametrize(
    ("label", "tvd", "accuracy"),
    [
        ("uniform over seen letters", 0.696, None),
        ("1-gram", 0.629, 0.468),
        ("2-gram", 0.333, 0.820),
        ("3-gram", 0.266, 0.931),
        ("4-gram", 0.280, 0.947),
        ("oracle", 0.0, 1.0),
    ],
)
def test_predictors_reach_their_known_levels(
    published: RegBench, label: str, tvd: float, accuracy: float | None
) -> None:
    metrics = published.baselines()[label]("test").metrics
    assert metrics["tvd"] == pytest.approx(tvd, abs=0.01)
    if accuracy is not None:
        assert metrics["accuracy"] == pytest.approx(accuracy, abs=0.01 + 0.01 * (tvd > 0.5))


def test_entropy_and_length_are_those_of_the_language(published: RegBench) -> None:
    oracle = published.baselines()["oracle"]("test").metrics
    assert oracle["loss"] == pytest.approx(0.610, abs=0.02)
    assert oracle["tvd"] < 1e-12
    assert published.splits["test"].lengths.mean() == pytest.approx(370, abs=10)
    # Expectations: a naive sampler (NumPy's generator, one automaton at a time, 6000 of them) gave
    # an entropy of 0.587 ± 0.003, below ln(6)/3 because walks are trapped where few edges leave;
    # a sequence has 14.5 strings of 25 letters on average.
    many = RegBench(training_automata=1, validation_size=1, test_size=3000)
    assert many.baselines()["oracle"]("test").metrics["loss"] == pytest.approx(0.587, abs=0.013)
    assert many.splits["test"].lengths.mean() == pytest.approx(14.5 * 25 + 13.5, abs=7)


def test_measuring_500_sequences_takes_well_under_a_second(published: RegBench) -> None:
    sequences = published.splits["test"]
    scores = np.zeros((len(sequences.tokens) - 500, 20), dtype=np.float32)
    start = time.process_time()
    measure(scores, sequences)
    assert time.process_time() - start < 1
