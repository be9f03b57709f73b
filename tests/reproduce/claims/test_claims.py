"""Verdicts on constructed data whose right verdict is known, and what no data may ever cause."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from core.statistics import LOSS, REAL, SHARE, Items, Kind
from reproduce.claims.observations import observe
from reproduce.claims.verdicts import (
    CONTRADICTED,
    NOT_ASKED,
    REPRODUCED,
    UNDECIDED,
    Finding,
    difference_above,
    difference_within,
    every,
    mean_within,
    not_asked,
    share_of_seeds,
)
from tests.reproduce.claims.samples import accuracy, record, sample

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
        (6, 6, REPRODUCED),  # 0.5^6 = 0.016 < 0.025: both limits together are at 95 %
        (5, 5, UNDECIDED),  # 0.5^5 = 0.031
        (4, 5, UNDECIDED),
        (9, 10, REPRODUCED),
        (0, 3, CONTRADICTED),  # 0.2^3 = 0.008 < 0.025
        (0, 2, UNDECIDED),  # 0.2^2 = 0.04
        (1, 5, CONTRADICTED),
        (0, 1, UNDECIDED),
        (1, 1, UNDECIDED),
        (70, 100, CONTRADICTED),  # surely more than half, but surely fewer than 4 in 5
    ],
)
def test_share_of_seeds(successes: int, count: int, verdict: str) -> None:
    outcomes = [1.0] * successes + [0.0] * (count - successes)
    finding = share_of_seeds(sample(*outcomes), required=0.8)
    assert finding.verdict == verdict
    assert finding.effect is not None
    assert finding.effect.difference == pytest.approx(successes / count - 0.8)


@pytest.mark.parametrize("items", [None, Items(500), Items(500, 0.0)])
def test_equal_seeds_at_a_limit_get_one_answer_from_every_test(items: Items | None) -> None:
    """Three seeds at 1.0: they decide by the number of items behind them, and not without it."""
    ones, zero = sample(1.0, 1.0, 1.0, kind=SHARE, items=items), sample(0.0, deterministic=True)
    of_500 = stats.binomtest(500, 500).proportion_ci(0.95, method="exact").low
    for low, high in ((0.97, 1.0), (0.97, 2.0), (1.0, 1.0), (0.2, 0.9), (of_500 - 1e-9, 1.0)):
        if items is None:
            expected = UNDECIDED
        elif high < of_500:
            expected = CONTRADICTED
        else:
            expected = REPRODUCED if low <= of_500 else UNDECIDED
        verdicts = {
            mean_within(ones, low, high).verdict,
            difference_within(ones, zero, low, high).verdict,
            every([lambda v, e=(low, high): mean_within(ones, *e, level=v)]).verdict,
        }
        assert verdicts == {expected}
    finding = mean_within(ones, 1.0)
    assert finding.seeds_needed is None  # more equal seeds would say the same
    known = "over seeds and 500 test items 0.993 to 1.000"
    assert (known if items else "no spread over seeds: no interval") in finding.evidence


def test_ends_are_inside_and_a_tie_is_not_above() -> None:
    exact, other = sample(0.9, deterministic=True), sample(0.4, deterministic=True)
    assert mean_within(exact, 0.9, 0.9).verdict == REPRODUCED
    assert difference_within(exact, other, 0.5, 0.5).verdict == REPRODUCED
    assert difference_above(exact, other, 0.5).verdict == CONTRADICTED


def test_items_that_both_models_met_are_compared_one_by_one() -> None:
    hard = [0.1 * (i % 10) for i in range(200)]

    def items(shift: float, drawn: str = "data") -> Items:
        numbers = tuple(value + shift for value in hard)
        return Items(200, stats.tvar(numbers) / 200, 0.0, values=numbers, drawn=drawn)

    ours = sample(0.479, 0.48, 0.481, kind=SHARE, items=items(0.03))
    theirs = sample(0.449, 0.45, 0.451, kind=SHARE, items=items(0.0))
    baseline = sample(0.45, deterministic=True, kind=SHARE, items=items(0.0))
    for rival in (theirs, baseline):
        assert difference_above(ours, rival).verdict == REPRODUCED
        assert difference_above(rival, ours).verdict == CONTRADICTED
        elsewhere = replace(rival, items=items(0.0, "other"))
        assert difference_above(ours, elsewhere).verdict == UNDECIDED
    # A baseline without items of its own is a constant, and the items of the model count alone.
    alone = replace(baseline, items=None)
    assert difference_above(ours, alone).verdict == mean_within(ours, low=0.45).verdict == UNDECIDED


def test_seeds_needed_settle_the_question() -> None:
    assert share_of_seeds(sample(1.0, 1.0, 1.0), required=0.8).seeds_needed == 6
    assert share_of_seeds(sample(1.0), required=0.8).seeds_needed == 6
    ours, theirs = [0.60, 0.64, 0.68], [0.58, 0.60, 0.62]
    finding = difference_above(sample(*ours), sample(*theirs))
    assert finding.verdict == UNDECIDED
    assert finding.seeds_needed is not None
    assert settled(finding.seeds_needed, (0.64, 0.04), (0.60, 0.02)) >= 0.77
    assert settled(finding.seeds_needed - 2, (0.64, 0.04), (0.60, 0.02)) <= 0.80


def settled(count: int, *groups: tuple[float, float]) -> float:
    """In which share of studies Welch's test finds a difference that is as assumed."""
    generator = np.random.default_rng(4)
    a, b = (generator.normal(*group, size=(4000, count)) for group in groups)
    return float((stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05).mean())


@pytest.mark.parametrize(("successes", "count"), [(3, 5), (4, 6), (2, 5)])
def test_so_many_seeds_settle_a_share_in_four_of_five_studies(successes: int, count: int) -> None:
    outcomes = [1.0] * successes + [0.0] * (count - successes)
    needed = share_of_seeds(sample(*outcomes), required=0.8).seeds_needed
    assert needed is not None

    def share_settled(seeds: int) -> float:
        found = np.random.default_rng(6).binomial(seeds, successes / count, 2000)
        decides = {}
        for k in set(found.tolist()):
            runs = sample(*[1.0] * k, *[0.0] * (seeds - k))
            decides[k] = share_of_seeds(runs, required=0.8).verdict != UNDECIDED
        return sum(decides[k] for k in found.tolist()) / 2000

    assert 0.78 <= share_settled(needed) <= 0.87  # whole numbers jump
    assert share_settled(needed - 1) <= 0.82


def test_seeds_needed_between_two_edges_are_more_than_for_one() -> None:
    numbers = (0.4, 0.5, 0.6)
    one = mean_within(sample(*numbers), low=0.4).seeds_needed
    two = mean_within(sample(*numbers), low=0.4, high=0.6).seeds_needed
    assert one is not None
    assert two is not None
    assert two > one
    generator = np.random.default_rng(1)
    draws = generator.normal(0.5, 0.1, size=(2000, two)).tolist()
    found = [mean_within(sample(*row), 0.4, 0.6).verdict == REPRODUCED for row in draws]
    assert 0.75 <= np.mean(found) <= 0.85


def test_chance_that_each_seed_meets_anew_becomes_smaller_with_more_seeds() -> None:
    """Items of one difficulty: their variance is all chance, and no reason to give up."""
    numbers, chance = (0.50, 0.56, 0.62), Items(100, 0.0012, 0.0012)
    alone = mean_within(sample(*numbers), low=0.5).seeds_needed
    assert mean_within(sample(*numbers, items=chance), low=0.5).seeds_needed == alone
    fixed = replace(chance, shared=0.0)
    assert mean_within(sample(*numbers, items=fixed), low=0.5).seeds_needed is None


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
    lost = [record(seed, outcome="diverged") for seed in range(3)]
    as_worst = observe("Mosaic", lost, accuracy, diverged=0.0)
    assert share_of_seeds(as_worst, required=0.8).verdict == CONTRADICTED
    # Three equal seeds without items behind them are no evidence about the mean, failed or not.
    rival = sample(0.5, 0.51, 0.52, kind=SHARE)
    assert difference_above(as_worst, rival).verdict == UNDECIDED
    on_items = replace(as_worst, items=Items(100))
    assert difference_above(on_items, rival).verdict == CONTRADICTED


def test_a_rival_that_fails_supports_nothing() -> None:
    rival = observe("rival", [record(seed, outcome="diverged") for seed in range(3)], accuracy)
    assert difference_above(sample(0.9, 0.91, 0.92), rival).verdict == UNDECIDED


def test_runs_that_were_lost_to_the_machine_could_have_given_anything() -> None:
    six = [record(seed, 1.0) for seed in range(6)]
    lost = [record(seed, outcome="out_of_memory", cause="37 GiB") for seed in range(6, 10)]
    assert share_of_seeds(observe("m", six, accuracy), 0.8).verdict == REPRODUCED
    finding = share_of_seeds(observe("m", [*six, *lost], accuracy), 0.8)
    assert finding.verdict == UNDECIDED
    assert finding.seeds_needed is None
    assert "m seed 9 ran out of memory (37 GiB)" in finding.evidence


@pytest.mark.parametrize("kind", [REAL, LOSS])
def test_lost_runs_of_a_number_without_bounds_leave_everything_open(kind: Kind) -> None:
    runs = [record(seed, 2.0 + seed / 100) for seed in range(3)]
    lost = [record(seed, outcome="failed") for seed in range(3, 5)]
    found = observe("m", [*runs, *lost], accuracy, kind)
    assert mean_within(found, 0, 5).verdict == UNDECIDED
    assert difference_above(found, sample(1.0, 1.1, 1.2)).verdict == UNDECIDED
    assert mean_within(found, 0, 5).seeds_needed is None


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


def test_a_part_that_is_not_asked_hides_no_contradiction() -> None:
    good, bad = sample(0.9, 0.91, 0.92), sample(0.3, 0.31, 0.32)
    holds = lambda v: mean_within(good, low=0.8, level=v)  # noqa: E731
    fails = lambda v: mean_within(bad, low=0.8, level=v)  # noqa: E731
    missing = lambda v: not_asked("N = 500", "no runs", "gpu")  # noqa: E731
    found = every([holds, missing])
    assert (found.verdict, found.topic, found.asked_at) == (NOT_ASKED, "N = 500", "gpu")
    assert every([missing, fails]).verdict == CONTRADICTED
    assert "no runs" not in every([missing, fails]).evidence
    assert every([missing, missing]).verdict == NOT_ASKED


def test_parts_need_what_the_most_demanding_of_them_needs() -> None:
    near, nearer = (0.79, 0.82, 0.85), (0.78, 0.81, 0.84)
    tests = [lambda v, n=n: mean_within(sample(*n), low=0.8, level=v) for n in (near, nearer)]
    alone = mean_within(sample(*nearer), low=0.8).seeds_needed
    assert every(tests).seeds_needed == alone
    # A part that fails at 95 %, though not surely enough of several, is settled by no such number.
    worse = lambda v: mean_within(sample(0.77, 0.775, 0.78), low=0.8, level=v)  # noqa: E731
    assert worse(0.95).verdict == CONTRADICTED
    assert every([*tests, *[worse] * 3]).verdict == UNDECIDED
    assert every([*tests, *[worse] * 3]).seeds_needed is None
