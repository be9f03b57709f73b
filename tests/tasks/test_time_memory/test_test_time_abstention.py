"""Confidence in the battery by brute force: seen and unseen keys, right and wrong answers."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from models.memories.outer_product import OuterProduct
from tasks.test_time_memory import scores
from tasks.test_time_memory.material import Vectors
from tests.closeness import assert_near
from tests.tasks.test_time_memory.test_test_time_memory import battery, last, table


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(0)
    seen, unseen = random.integers(0, 6, 40).astype(float), random.integers(0, 5, 30).astype(float)
    pairs = [(a > b) + (a == b) / 2 for a in seen for b in unseen]
    assert scores.auroc(seen, unseen) == pytest.approx(np.mean(pairs))


def test_risk_and_coverage_of_perfect_and_of_useless_confidence() -> None:
    right = np.array([1.0] * 9 + [0.0])
    area, ninety = scores.risk_coverage(np.arange(10.0)[::-1].copy(), right)
    assert ninety == 1
    assert area == pytest.approx(np.mean([0] * 9 + [0.1]))
    area, ninety = scores.risk_coverage(np.zeros(10), right)
    assert area == pytest.approx(0.1)
    assert ninety == pytest.approx(0.9)


def test_calibration_error_by_its_definition() -> None:
    probability = np.array([0.05, 0.05, 0.95, 0.95, 0.5])
    right = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    expected = 2 / 5 * abs(0.05 - 0.5) + 2 / 5 * abs(0.95 - 1) + 1 / 5 * abs(0.5 - 1)
    assert scores.calibration_error(probability, right) == pytest.approx(expected)


def test_unseen_keys_are_known_by_their_distance() -> None:
    found = table()
    found.abstention(32)
    assert found.found.metrics["auroc"] == 1
    assert found.found.metrics["auroc_by_candidate"] == pytest.approx(0.5, abs=0.1)


def test_abstention_is_over_as_many_unseen_keys_as_seen_ones() -> None:
    kept, count = 20, 32
    found = last(kept)
    found.abstention(count)
    pairs = Vectors(32, 0).pairs(2, 2 * count, torch.Generator().manual_seed(0))
    sure, cosine, right, answers = [], [], [], []
    for row, (keys, values) in enumerate(
        zip(pairs.keys.numpy(), pairs.values.numpy(), strict=True)
    ):
        for query in range(2 * count):
            likeness = [float(keys[query] @ keys[k]) for k in range(count - kept, count)]
            answer = count - kept + int(np.argmax(likeness))
            answers.append((row, answer))
            sure.append(max(likeness))
            cosine.append(max(float(values[answer] @ values[k]) for k in range(count)))
            right.append(float(query == answer))
    assert sum(right) == 2 * kept  # of 2 · 2 · count answers
    order = sorted(range(len(sure)), key=lambda q: -sure[q])
    risks = [1 - np.mean([right[q] for q in order[:n]]) for n in range(1, len(order) + 1)]
    metrics = found.found.metrics
    assert metrics["risk_coverage_area"] == pytest.approx(np.mean(risks), abs=1e-3)
    accuracy = 1 - risks[round(0.9 * len(order)) - 1]
    assert metrics["accuracy_at_90_coverage"] == pytest.approx(accuracy)
    # Every answer is a stored value, so that all cosines are 1, whether it is right or not.
    assert_near(min(cosine), 1.0, terms=32, dtype=torch.float32)
    found = metrics["calibration_error"]
    assert_near(found, 1 - np.mean(right), terms=32 + 128, largest=1.0, dtype=torch.float32)
    # So rounding alone puts the 2 · kept stored values in order. The area is the mean rank of the
    # values in wrong answers, each with its share of them: uniform draws with these weights.
    wrong = Counter(answer for answer, is_right in zip(answers, right, strict=True) if not is_right)
    shares = np.array(list(wrong.values())) / wrong.total()
    deviation = math.sqrt(float((shares**2).sum()) / 12)
    assert metrics["auroc_by_candidate"] == pytest.approx(0.5, abs=5 * deviation)


def test_calibration_takes_the_cosine_with_a_candidate_for_a_probability() -> None:
    count = 32
    found = battery(lambda: OuterProduct(32, 32))
    found.abstention(count)
    pairs = Vectors(32, 0).pairs(2, 2 * count, torch.Generator().manual_seed(0))
    bins: list[list[tuple[float, float]]] = [[] for _ in range(15)]
    for keys, values in zip(
        pairs.keys.double().numpy(), pairs.values.double().numpy(), strict=True
    ):
        matrix = sum(np.outer(values[k], keys[k]) for k in range(count))
        for query in range(2 * count):
            answer = matrix @ keys[query]
            cosines = values[:count] @ answer / np.linalg.norm(answer)
            right = float(query == cosines.argmax())
            bins[int(cosines.max() * 15)].append((cosines.max(), right))
    gaps = [abs(sum(p - r for p, r in inside)) for inside in bins]
    expected = sum(gaps) / (4 * count)
    error = found.found.metrics["calibration_error"]
    assert_near(error, expected, terms=3 * 32 + 128, largest=1.0, dtype=torch.float32)
