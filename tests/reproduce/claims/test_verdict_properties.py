"""What no data may ever cause, and what noise may not."""

import math
import random

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from core.statistics import REAL, SHARE, Kind
from reproduce.claims.verdicts import (
    CONTRADICTED,
    REPRODUCED,
    UNDECIDED,
    difference_above,
    mean_within,
    share_of_seeds,
)
from tests.reproduce.claims.samples import sample, with_unknown

values = st.floats(0, 1, allow_nan=False)
several = st.lists(values, min_size=2, max_size=8)


@given(values, several, st.floats(0, 1), st.floats(0, 1))
def test_one_seed_never_decides(value: float, others: list[float], a: float, b: float) -> None:
    one = sample(value)
    assert difference_above(one, sample(*others)).verdict == UNDECIDED
    assert difference_above(sample(*others), one).verdict == UNDECIDED
    assert mean_within(one, min(a, b), max(a, b)).verdict == UNDECIDED
    assert share_of_seeds(sample(round(value)), required=a).verdict == UNDECIDED


@given(several, several, st.floats(1, 10))
def test_noise_never_turns_a_verdict_around(a: list[float], b: list[float], spread: float) -> None:
    # Equal means, larger spread: a verdict may be lost, never reversed or won.
    def noisy(numbers: list[float]) -> list[float]:
        centre = math.fsum(numbers) / len(numbers)
        return [centre + spread * (value - centre) for value in numbers]

    assume(len(set(a)) > 1 and len(set(b)) > 1)
    before = difference_above(sample(*a), sample(*b)).verdict
    after = difference_above(sample(*noisy(a)), sample(*noisy(b))).verdict
    assert after in (before, UNDECIDED)


@given(several, several, st.floats(-1, 1))
def test_swapping_sides_swaps_the_verdict(a: list[float], b: list[float], margin: float) -> None:
    swapped = {REPRODUCED: CONTRADICTED, CONTRADICTED: REPRODUCED, UNDECIDED: UNDECIDED}
    forth = difference_above(sample(*a), sample(*b), margin).verdict
    back = difference_above(sample(*b), sample(*a), -margin).verdict
    assert back == swapped[forth]


@given(several, several, st.sampled_from([REAL, SHARE]))
def test_an_unknown_run_never_gives_a_verdict_that_some_value_of_it_would_refuse(
    a: list[float], b: list[float], kind: Kind
) -> None:
    ours = with_unknown(sample(*a, kind=kind))
    above = difference_above(ours, sample(*b, kind=kind)).verdict
    within = mean_within(ours, 0.3, 0.7).verdict
    generator = random.Random(0)
    for filled in [0.0, 1.0, *(generator.random() for _ in range(20))]:
        known = sample(*a, filled, kind=kind)
        if above != UNDECIDED:
            assert difference_above(known, sample(*b, kind=kind)).verdict == above
        if within != UNDECIDED:
            assert mean_within(known, 0.3, 0.7).verdict == within


@given(several, several)
def test_a_diverged_run_of_the_favoured_model_never_helps_it_to_be_reproduced(
    a: list[float], b: list[float]
) -> None:
    before = difference_above(sample(*a), sample(*b)).verdict
    after = difference_above(sample(*a, 0.0), sample(*b)).verdict
    assert before == REPRODUCED or after != REPRODUCED


@given(st.integers(1, 40), st.data(), st.floats(0.05, 0.95))
def test_one_more_failed_seed_never_turns_a_share_to_reproduced(
    count: int, data: st.DataObject, required: float
) -> None:
    successes = data.draw(st.integers(0, count))
    outcomes = [1.0] * successes + [0.0] * (count - successes)
    before = share_of_seeds(sample(*outcomes), required).verdict
    after = share_of_seeds(sample(*outcomes, 0.0), required).verdict
    assert before == REPRODUCED or after != REPRODUCED


def test_a_false_claim_is_rarely_called_reproduced() -> None:
    # Networks that succeed as often as not, six seeds: 1 in 64 such studies succeeds throughout.
    studies = np.random.default_rng(1).binomial(6, 0.5, 5000)
    called = {
        k: share_of_seeds(sample(*[1.0] * k, *[0.0] * (6 - k)), 0.8).verdict == REPRODUCED
        for k in range(7)
    }
    assert 0.009 < np.mean([called[k] for k in studies.tolist()]) < 0.025
