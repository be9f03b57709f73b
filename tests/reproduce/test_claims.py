"""Verdicts on constructed data whose right verdict is known, and what no data may ever cause."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bench.records.schema import RunRecord
from reproduce.judging.claims import (
    CONTRADICTED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Finding,
    Tolerance,
    difference_above,
    every,
    mean_within,
    share_limits,
    share_of_seeds,
)
from reproduce.judging.observations import Observation, Sample, observe
from tests.bench.records import make_record

values = st.floats(0, 1, allow_nan=False)
several = st.lists(values, min_size=2, max_size=8)


def sample(*numbers: float, label: str = "model", deterministic: bool = False) -> Sample:
    known = [Observation(seed, value, value) for seed, value in enumerate(numbers)]
    return Sample(label, tuple(known), deterministic)


def with_unknown(of: Sample, low: float = 0.0, high: float = 1.0) -> Sample:
    lost = Observation(len(of.observations), low, high, "failed")
    return Sample(of.label, (*of.observations, lost), of.deterministic)


def record(
    seed: int,
    value: float | None = None,
    outcome: str = "ok",
    started: str = "2026-01-01",
    **changes: Any,
) -> RunRecord:
    provenance = make_record().provenance.model_copy(update={"started_at": started})
    metrics = {} if value is None else {"test": {"accuracy": value}}
    return make_record(
        seed=seed, outcome=outcome, metrics=metrics, provenance=provenance, **changes
    )


def accuracy(of: RunRecord) -> float | None:
    return of.metrics.get("test", {}).get("accuracy")


# Constructed data with known verdicts


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([0.90, 0.91, 0.92], [0.50, 0.51, 0.52], REPRODUCED),
        ([0.50, 0.51, 0.52], [0.90, 0.91, 0.92], CONTRADICTED),
        ([0.50, 0.60, 0.70], [0.52, 0.58, 0.65], UNDECIDED),
        ([0.90], [0.10], UNDECIDED),
        ([0.90, 0.91, 0.92], [0.10], UNDECIDED),
    ],
)
def test_difference(ours: list[float], theirs: list[float], verdict: str) -> None:
    assert difference_above(sample(*ours), sample(*theirs)).verdict == verdict


def test_difference_agrees_with_scipys_welch_test() -> None:
    # Independent truth: at the boundary level of the two-sided test the verdict flips.
    ours, theirs = [0.61, 0.66, 0.63, 0.70], [0.58, 0.60, 0.59]
    p = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    above = partial(difference_above, sample(*ours), sample(*theirs))
    assert above(level=1 - p - 1e-6).verdict == REPRODUCED
    assert above(level=1 - p + 1e-6).verdict == UNDECIDED


def test_a_deterministic_baseline_needs_one_value_and_a_network_does_not_become_one() -> None:
    baseline = sample(0.93, deterministic=True)
    assert difference_above(sample(0.96, 0.961, 0.959), baseline).verdict == REPRODUCED
    assert difference_above(sample(0.80, 0.801, 0.799), baseline).verdict == CONTRADICTED
    assert difference_above(sample(0.96), baseline).verdict == UNDECIDED
    assert mean_within(baseline, 0.9, 0.95).verdict == REPRODUCED
    assert mean_within(baseline, 0.95, 1).verdict == CONTRADICTED


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ([0.260, 0.266, 0.270], REPRODUCED),  # interval 0.253 to 0.278, inside 0.25 to 0.28
        ([0.310, 0.316, 0.320], CONTRADICTED),
        ([0.270, 0.280, 0.290], UNDECIDED),  # across the edge
        ([0.100, 0.266, 0.430], UNDECIDED),  # right on the target, but too wide to say so
    ],
)
def test_equivalence_needs_the_whole_interval_inside(numbers: list[float], verdict: str) -> None:
    assert mean_within(sample(*numbers), 0.25, 0.28).verdict == verdict


@pytest.mark.parametrize(
    ("successes", "count", "verdict"),
    [
        (5, 5, REPRODUCED),  # 0.5^5 = 0.031 < 0.05
        (4, 4, UNDECIDED),  # 0.5^4 = 0.063
        (4, 5, UNDECIDED),
        (9, 10, REPRODUCED),
        (0, 2, CONTRADICTED),  # 0.2^2 = 0.04 < 0.05
        (1, 5, CONTRADICTED),
        (0, 1, UNDECIDED),
        (1, 1, UNDECIDED),
        (70, 100, CONTRADICTED),  # surely more than half, but surely fewer than 4 in 5
    ],
)
def test_share_of_seeds(successes: int, count: int, verdict: str) -> None:
    outcomes = [1.0] * successes + [0.0] * (count - successes)
    assert share_of_seeds(sample(*outcomes), required=0.8).verdict == verdict


@pytest.mark.parametrize(("successes", "count"), [(0, 3), (2, 5), (9, 10), (7, 7)])
def test_limits_of_a_share_are_those_of_clopper_and_pearson(successes: int, count: int) -> None:
    interval = stats.binomtest(successes, count).proportion_ci(0.90, method="exact")
    assert share_limits(successes, count, 0.95) == pytest.approx(
        (interval.low, interval.high), abs=1e-9
    )


def test_seeds_needed_settle_the_question() -> None:
    finding = share_of_seeds(sample(1.0, 1.0, 1.0), required=0.8)
    assert finding.seeds_needed == 5
    ours, theirs = [0.60, 0.64, 0.68], [0.58, 0.60, 0.62]
    finding = difference_above(sample(*ours), sample(*theirs))
    assert finding.verdict == UNDECIDED
    assert finding.seeds_needed is not None

    def settles(count: int) -> bool:
        summary = [(0.64, 0.04, count), (0.60, 0.02, count)]
        (m, s, n), (k, t, _) = summary
        return stats.ttest_ind_from_stats(m, s, n, k, t, n, equal_var=False).pvalue < 0.05

    assert settles(finding.seeds_needed)
    assert not settles(finding.seeds_needed - 1)


# Failed runs


def test_failed_runs_are_evidence_and_are_named() -> None:
    runs = [record(seed, 0.9 + seed / 1000) for seed in range(3)]
    lost = record(3, outcome="diverged", cause="the loss is not finite at step 12")
    favoured = observe("Mosaic", [*runs, lost], accuracy, diverged=0.0)
    rival = sample(0.5, 0.51, 0.52)
    assert difference_above(observe("Mosaic", runs, accuracy), rival).verdict == REPRODUCED
    finding = difference_above(favoured, rival)
    assert finding.verdict == UNDECIDED  # 0.9, 0.9, 0.9 and 0
    assert finding.seeds == 3
    assert "Mosaic seed 3 diverged (the loss is not finite at step 12)" in finding.evidence


def test_a_total_failure_contradicts() -> None:
    lost = observe(
        "Mosaic", [record(s, outcome="diverged") for s in range(3)], accuracy, diverged=0.0
    )
    assert difference_above(lost, sample(0.5, 0.51, 0.52)).verdict == CONTRADICTED
    assert share_of_seeds(lost, required=0.8).verdict == CONTRADICTED


def test_a_rival_that_fails_supports_nothing() -> None:
    rival = observe("rival", [record(seed, outcome="diverged") for seed in range(3)], accuracy)
    assert difference_above(sample(0.9, 0.91, 0.92), rival).verdict == UNDECIDED


def test_runs_that_were_lost_to_the_machine_could_have_given_anything() -> None:
    five = [record(seed, 1.0) for seed in range(5)]
    lost = [record(seed, outcome="out_of_memory", cause="37 GiB") for seed in range(5, 9)]
    assert share_of_seeds(observe("m", five, accuracy), 0.8).verdict == REPRODUCED
    finding = share_of_seeds(observe("m", [*five, *lost], accuracy), 0.8)
    assert finding.verdict == UNDECIDED
    assert finding.seeds_needed is None
    assert "m seed 8 ran out of memory (37 GiB)" in finding.evidence


def test_no_runs_say_so() -> None:
    finding = difference_above(sample(0.9, 0.8), sample(label="GPT2"))
    assert finding == Finding(UNDECIDED, "no runs of GPT2", 0)
    assert share_of_seeds(sample(label="m"), 0.8).verdict == UNDECIDED
    assert mean_within(sample(label="m"), 0, 1).verdict == UNDECIDED


def test_one_observation_a_seed_the_last_one_made() -> None:
    runs = [
        record(0, 0.2, started="2026-01-02"),
        record(0, 0.9, started="2026-01-01", identity="cd" * 32),
    ]
    assert observe("m", runs, accuracy).values == [0.2]


def test_baseline_records_are_deterministic() -> None:
    run = record(0, 0.93, role="baseline")
    assert observe("3-gram", [run], accuracy).deterministic


@pytest.mark.parametrize(
    ("ours", "theirs", "margin", "verdict"),
    [
        (0.8, 0.8, 0.0, CONTRADICTED),  # a tie is not above
        (0.75, 0.5, 0.25, CONTRADICTED),
        (0.8, 0.7, 0.0, REPRODUCED),
        (0.7, 0.8, 0.0, CONTRADICTED),
    ],
)
def test_two_exact_numbers_are_compared_exactly(
    ours: float, theirs: float, margin: float, verdict: str
) -> None:
    a, b = sample(ours, deterministic=True), sample(theirs, deterministic=True)
    finding = difference_above(a, b, margin)
    assert (finding.verdict, finding.seeds_needed) == (verdict, None)


def test_exact_numbers_that_overlap_need_no_seeds() -> None:
    a, b = sample(0.5, 0.7, deterministic=True), sample(0.6, deterministic=True)
    finding = difference_above(a, b)
    assert (finding.verdict, finding.seeds_needed) == (UNDECIDED, None)


# Every rival


def test_every_rival_has_to_be_beaten() -> None:
    ours, low = sample(0.9, 0.91, 0.92), sample(0.5, 0.51, 0.52)
    near, high = sample(0.89, 0.92, 0.90), sample(0.97, 0.98, 0.975)
    test = lambda rivals: every([lambda v, r=r: difference_above(ours, r, level=v) for r in rivals])  # noqa: E731
    assert test([low, low]).verdict == REPRODUCED
    assert test([low, near]).verdict == UNDECIDED
    assert test([low, near, high]).verdict == CONTRADICTED
    assert test([low, sample(label="missing")]).verdict == UNDECIDED
    assert test([]).verdict == UNDECIDED


def test_more_rivals_make_it_harder_to_contradict_by_chance() -> None:
    ours, above = sample(0.90, 0.91, 0.92), sample(0.93, 0.94, 0.95)
    low = sample(0.5, 0.51, 0.52)
    against = lambda v: difference_above(ours, above, level=v)  # noqa: E731
    beaten = lambda v: difference_above(ours, low, level=v)  # noqa: E731
    assert every([against]).verdict == CONTRADICTED
    assert every([against, *[beaten] * 20]).verdict == UNDECIDED


# What no data may cause


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


@given(several, several)
def test_an_unknown_run_never_gives_a_verdict_that_some_value_of_it_would_refuse(
    a: list[float], b: list[float]
) -> None:
    ours = with_unknown(sample(*a))
    verdict = difference_above(ours, sample(*b)).verdict
    if verdict != UNDECIDED:
        generator = random.Random(0)
        for filled in [0.0, 1.0, *(generator.random() for _ in range(20))]:
            assert difference_above(sample(*a, filled), sample(*b)).verdict == verdict


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
    # Networks that succeed as often as not, five seeds: 1 in 32 such studies succeeds throughout.
    generator = random.Random(1)
    wrong = sum(
        share_of_seeds(sample(*(generator.choice([0.0, 1.0]) for _ in range(5))), 0.8).verdict
        == REPRODUCED
        for _ in range(2000)
    )
    assert 0.02 < wrong / 2000 < 0.05


def test_result_is_what_a_verdict_file_holds() -> None:
    claim = Claim(
        "accuracy",
        "paper, figure 9",
        "It is accurate.",
        Tolerance("mean above {floor:g}", {"floor": 0.8}),
        lambda records, numbers: mean_within(
            observe("Model", records, accuracy), low=numbers["floor"]
        ),
    )
    runs = [record(seed, 0.9 + seed / 100) for seed in range(3)]
    content = claim.judge(runs).to_json()
    assert content["tolerance"] == "mean above 0.8"
    assert content["verdict"] == REPRODUCED
    assert content["seeds"] == 3
    assert content["seeds_needed"] is None
    assert content["evidence"] == "Model 0.910 (95% interval 0.885 to 0.935)"
