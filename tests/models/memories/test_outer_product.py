"""Weighting schemes against their definitions, and the table that they need."""

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.memories.outer_product import OuterProduct
from tests.closeness import assert_near

COUNTS = torch.tensor([7, 0, 3, 3, 1, 12, 0, 1])


def weights(counts: Tensor = COUNTS, key_size: int = 16, **settings: Any) -> list[float]:
    return OuterProduct(key_size, 4, **settings).weights(counts).tolist()


def test_schemes_on_a_few_counts() -> None:
    assert weights(scheme="frequency") == [7, 0, 3, 3, 1, 12, 0, 1]
    assert weights(scheme="seen") == [1, 0, 1, 1, 1, 1, 0, 1]
    assert weights(scheme="threshold") == [1, 0, 0, 0, 0, 1, 0, 0]  # 16 / 8 keys
    assert weights(scheme="threshold", kept=3 / 16) == [1, 0, 1, 0, 0, 1, 0, 0]  # the earlier 3
    assert weights(scheme="threshold", kept=1.0) == weights(scheme="seen")
    assert weights(scheme="threshold", minimum_count=3) == [1, 0, 1, 1, 0, 1, 0, 0]
    assert weights(scheme="threshold", minimum_count=3, kept=1 / 16) == [0, 0, 0, 0, 0, 1, 0, 0]
    squares = [(c / 27) ** 2 for c in COUNTS.tolist()]
    assert_near(weights(scheme="power", exponent=2.0), squares, dtype=torch.float32)
    seen = weights(scheme="seen")
    assert_near(weights(scheme="power", exponent=0.0), seen, dtype=torch.float32)
    power = weights(scheme="power", kept=1 / 16, exponent=1.0)
    assert_near(power[5], 12 / 27, dtype=torch.float32)
    assert sum(w > 0 for w in weights(scheme="power", kept=1 / 16)) == 1


def test_the_gradient_scheme_is_the_iterated_map() -> None:
    expected = []
    for count in COUNTS.tolist():
        x = 0.0
        for _ in range(count):
            x += 0.7 / (1 + math.exp(x) / 3)
        expected.append(x)
    found = weights(scheme="gradient", step=0.7, classes=3)
    assert_near(found, expected, terms=COUNTS.max().item(), dtype=torch.float32)


def test_the_gradient_scheme_is_a_count_for_small_steps_and_a_logarithm_for_large_counts() -> None:
    """x' = γ / (1 + eˣ / M) starts with slope γ M / (M + 1) and ends as log(γ M c)."""
    small = weights(torch.tensor([1, 10]), scheme="gradient", step=1e-6)
    assert small[1] / small[0] == pytest.approx(10, rel=1e-4)
    assert_near(small[0], 1e-6 * 5 / 6, dtype=torch.float32)
    counts = torch.tensor([10**4, 10**5], dtype=torch.float64)
    large = weights(counts, scheme="gradient", step=1.0)
    assert large == pytest.approx([math.log(5e4), math.log(5e5)], abs=1e-3)
    assert math.isfinite(weights(torch.tensor([3]), scheme="gradient", step=1e6)[0])


def test_frequencies_serve_as_counts_except_for_the_gradient_scheme() -> None:
    frequencies = torch.tensor([0.5, 0.3, 0.2])
    assert weights(frequencies, scheme="frequency") == frequencies.tolist()
    assert weights(frequencies, key_size=8, scheme="threshold") == [1, 0, 0]
    with pytest.raises(ValueError, match="whole numbers"):
        weights(frequencies, scheme="gradient")


def test_weights_are_vectorised_over_trials_and_know_other_sizes() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(0, 5, (3, 4, 30), generator=generator)
    for scheme in ("frequency", "seen", "threshold", "power", "gradient"):
        memory = OuterProduct(64, 4, scheme=scheme)
        together = memory.weights(counts, key_size=40)
        other = OuterProduct(40, 4, scheme=scheme)
        for trial in np.ndindex(3, 4):
            assert_near(together[trial], other.weights(counts[trial]), terms=30)


@pytest.mark.parametrize("scheme", ["seen", "threshold", "power", "gradient"])
def test_the_table_gives_the_weighted_sum_over_distinct_keys(scheme: str) -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    drawn = torch.randint(0, 12, (2, 40), generator=generator)
    keys = table[drawn]
    values = torch.randn(2, 40, 5, generator=generator, dtype=torch.float64)
    memory = OuterProduct(6, 5, scheme=scheme, kept=0.5)
    for part in (slice(0, 7), slice(7, 8), slice(8, 40)):
        memory.write(keys[:, part], values[:, part])
    asked = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    read = memory.read(asked).values
    for one in range(2):
        written = defaultdict(list)
        for name, value in zip(drawn[one].tolist(), values[one].numpy(), strict=True):
            written[name].append(value)
        counts = Counter(drawn[one].tolist())
        names = list(dict.fromkeys(drawn[one].tolist()))  # by first appearance
        q = memory.weights(torch.tensor([counts[name] for name in names], dtype=torch.float64))
        matrix = sum(
            weight * np.outer(np.mean(written[name], axis=0), table[name].numpy())
            for weight, name in zip(q.tolist(), names, strict=True)
        )
        assert_near(read[one], asked[one].numpy() @ matrix.T, terms=40 + 12 + 6)


def test_with_weights_equal_to_counts_the_table_is_hebb() -> None:
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(5, 6, generator=generator, dtype=torch.float64)[[0, 1, 2, 0, 0, 3, 4, 3]]
    values = torch.randn(8, 5, generator=generator, dtype=torch.float64)
    table, hebb = OuterProduct(6, 5, scheme="power", exponent=1.0), OuterProduct(6, 5)
    for memory in (table, hebb):
        memory.write(keys, values)
    assert_near(8 * table.read(keys).values, hebb.read(keys).values, terms=8 + 8 + 6)


def test_the_table_counts_in_the_size() -> None:
    keys = torch.randn(5, 6, dtype=torch.float32)
    memory = OuterProduct(6, 4, scheme="seen")
    memory.write(keys[[0, 1, 2, 2, 1]], torch.randn(5, 4))
    assert memory.size_in_bytes() == 3 * (6 * 4 + 4 * 4 + 8)
    memory.write(keys[2:], torch.randn(3, 4))
    assert memory.size_in_bytes() == 5 * (6 * 4 + 4 * 4 + 8)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scheme": "log"}, "scheme is one of frequency, seen"),
        ({"kept": 0.0}, "above 0"),
        ({"minimum_count": 0}, "at least 1"),
        ({"step": -1.0}, "step is above 0"),
        ({"classes": 0}, "classes at least 1"),
        ({"exponent": -0.5}, "at least 0"),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        OuterProduct(4, 4, **settings)
