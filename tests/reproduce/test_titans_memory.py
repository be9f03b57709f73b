"""The reproduction of memories at test time: settings and claims as functions of records."""

from typing import Any

import pytest

from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.test_time_memory.figure import experiment_cells, table
from reproduce.test_time_memory.readme_memory import REPLAY
from reproduce.test_time_memory.runs import MEMORIES, variant_of, variants
from reproduce.test_time_memory.titans_memory import EXPERIMENT
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words


def run(model: str, seed: int, metrics: dict[str, float], *words: str) -> Any:
    composed = compose(["tasks=test_time_memory", f"models={model}", "preset=laptop", *words])
    return make_record(
        task="test_time_memory",
        model=model,
        label=model,
        seed=seed,
        preset="laptop",
        run_id=f"{model}-{'-'.join(words)}-{seed}",
        config=composed.resolved(),
        metrics={"validation": metrics, "test": metrics},
        curves={"recall_by_count": {"x": [32.0, 64.0], "y": [1.0, 0.5]}},
    )


def judged(records: list[Any], name: str) -> str:
    (claim,) = [claim for claim in EXPERIMENT.claims if claim.name == name]
    return claim.without_control(records).verdict


def seeds(model: str, *words: str, **metrics: float) -> list[Any]:
    """Three seeds with numbers that are almost the same."""
    return [run(model, s, {k: v + 0.001 * s for k, v in metrics.items()}, *words) for s in range(3)]


def readme(name: str, **metrics: float) -> list[Any]:
    (variant,) = [v for v in variants("laptop") if v.name == f"README: {name}"]
    return seeds(variant.model, *in_words([variant.settings])[0], **metrics)


@pytest.fixture(scope="module")
def planned() -> list[Any]:
    """A record of each setting."""
    return [
        run(v.model, 0, {"recall": 0.5, "recall_noise_1": 0.5}, *in_words([v.settings])[0])
        for v in variants("laptop")
    ]


def test_every_memory_that_there_is_is_shown() -> None:
    from bench.config.groups import choices

    # One is a way of writing another one again: the README's figure shows it beside that one. The
    # perceptron with a threshold for each key and the features of Hermite are measured for their
    # capacity alone; another optimiser of the README's network, limited storage and hashing have
    # figures of their own.
    elsewhere = {"thresholded", "hermite_features", "stored_by_optimizer"}
    elsewhere |= {"limited_table", "hashed_table"}
    assert {*MEMORIES, REPLAY, *elsewhere} == set(choices("memories"))


def test_every_planned_run_is_known_again_as_what_it_is(planned: list[Any]) -> None:
    expected = [(variant.model, variant.name) for variant in variants("laptop")]
    assert len(set(expected)) == len(expected)
    assert [(record.model, variant_of(record)) for record in planned] == expected
    assert len(EXPERIMENT.select(planned)) == len(planned)
    asked = list(in_words(EXPERIMENT.plan("laptop", 1).runs))
    assert len(asked) == len(expected)
    assert {words[1] for words in asked} == {f"models={model}" for model in MEMORIES}


def test_a_run_with_another_setting_is_not_taken_for_a_planned_one(planned: list[Any]) -> None:
    changed = run("delta_rule", 0, {}, "tasks.items=32")
    assert changed not in EXPERIMENT.select([*planned, changed])
    assert EXPERIMENT.select([changed]) == [changed]  # the user changed all of them


def test_the_figure_its_numbers_and_its_tables_come_from_records(planned: list[Any]) -> None:
    picture = EXPERIMENT.draw(planned)
    assert len(picture.panels) == 13
    rendered(picture)  # without a single point of the sizes
    assert table(planned).count("\n") == 2 * (2 + len(MEMORIES)) + 1 + 2 + 2


def test_the_largest_number_of_sequences_is_shown() -> None:
    records = readme("many", many_recall_8=1.0, many_recall_50=0.7)
    row = experiment_cells(records)["README's network"]
    assert row == [None, pytest.approx(0.701), None, None, None, None]


def rewritten(model: str, new: float, stale: float, kept: float = 0.995) -> list[Any]:
    shares = {"overwrite_new": new, "overwrite_stale": stale, "overwrite_untouched": kept}
    return seeds(model, **shares)


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.5, 0.49), REPRODUCED),
        ((0.9, 0.09), CONTRADICTED),
        ((0.751, 0.248), UNDECIDED),
        ((0.5, 0.2), CONTRADICTED),  # old values are not found
        ((0.4, 0.4), CONTRADICTED),  # neither is found: too often
        ((0.5, 0.49, 0.5), CONTRADICTED),  # others are lost
    ],
)
def test_whether_sums_overwrite(shares: tuple[float, ...], verdict: str) -> None:
    records = rewritten("outer_product", *shares)
    records += [r for model in ("kernel", "ridge") for r in rewritten(model, 0.5, 0.49)]
    assert judged(records, "sums cannot overwrite") == verdict
    assert judged(records[:6], "sums cannot overwrite") != REPRODUCED  # ridge is missing


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.99, 0.0), REPRODUCED),
        ((0.8, 0.0), CONTRADICTED),
        ((0.99, 0.2), CONTRADICTED),
        ((0.99, 0.0, 0.6), CONTRADICTED),
    ],
)
def test_whether_the_delta_rule_overwrites(shares: tuple[float, ...], verdict: str) -> None:
    records = rewritten("delta_rule", *shares) + rewritten("nearest_neighbour", 0.99, 0.0)
    assert judged(records, "the delta rule overwrites") == verdict


@pytest.mark.parametrize(
    ("delta", "total", "verdict"),
    [
        ((0.1, 0.99), (0.33, 0.35), REPRODUCED),
        ((0.4, 0.99), (0.33, 0.35), CONTRADICTED),  # the gap is too small
        ((0.1, 0.99), (0.6, 0.35), CONTRADICTED),  # the sum loses the newest
        ((0.1, 0.99), (0.35, 0.6), CONTRADICTED),  # the sum loses the oldest
        ((0.1, 0.99), (0.98, 0.98), CONTRADICTED),  # the sum loses nothing
    ],
)
def test_what_is_forgotten_first(
    delta: tuple[float, float], total: tuple[float, float], verdict: str
) -> None:
    old, new = "recall_oldest_quarter", "recall_newest_quarter"
    records = seeds("delta_rule", **{old: delta[0], new: delta[1]})
    records += seeds("outer_product", **{f"{old}_most": total[0], f"{new}_most": total[1]})
    assert judged(records, "the delta rule forgets the oldest first") == verdict


@pytest.mark.parametrize(
    ("exact", "other", "verdict"),
    [(0.995, 0.6, REPRODUCED), (0.995, 0.1, CONTRADICTED), (0.8, 0.6, CONTRADICTED)],
)
def test_whether_ridge_is_the_most_fragile(exact: float, other: float, verdict: str) -> None:
    name = "ridge is the most fragile"
    records = seeds("ridge", recall_noise_0=exact, recall_noise_1=0.2)
    assert judged(records, name) == UNDECIDED  # there is nothing to compare with
    records += seeds("kernel", recall_noise_0=0.99, recall_noise_1=other)
    # A memory that does not recall clean keys is no rival, however little it recalls of noisy ones.
    records += seeds("delta_rule", recall_noise_0=0.9, recall_noise_1=0.0)
    assert judged(records, name) == verdict


def test_momentum_replay_and_decay_compare_settings_of_one_memory() -> None:
    linear, weights = "neural_memory_linear", "stored_in_weights"
    rates = ("models.rate=0.5", "models.momentum=0.0")
    old, new = "recall_oldest_quarter", "recall_newest_quarter"
    records = [
        *seeds(linear, recall=0.5),
        *seeds(linear, "models.momentum=0.9", recall=0.2),
        *seeds(linear, *rates, "models.decay=0.02", **{old: 0.0, new: 0.9}),
        *seeds(linear, *rates, **{old: 0.3, new: 0.98}),
        *seeds(weights, backward_transfer=0.0),
        *seeds(weights, "models.replay=0.0", backward_transfer=-0.8),
    ]
    for name, verdict in (
        ("momentum and random writes", REPRODUCED),
        ("forgetting gives up the old", REPRODUCED),
        ("weights forget without replay", REPRODUCED),
    ):
        assert judged(records, name) == verdict
        assert judged([], name) == UNDECIDED


def test_claims_over_materials_need_every_material() -> None:
    name, table_of = "retrieval is the reference", "nearest_neighbour"
    materials = [(f"tasks.material={kind}",) for kind in ("numbers", "text", "integers")]
    records = [r for words in ((), *materials) for r in seeds(table_of, *words, recall=0.995)]
    assert judged(records, name) == REPRODUCED
    assert judged(records[:9], name) == UNDECIDED
    worse = seeds(table_of, "tasks.material=integers", recall=0.6)
    assert judged([*records[:9], *worse], name) == CONTRADICTED


def test_the_readmes_experiments_are_judged_by_its_own_network() -> None:
    records = [
        *readme("one", one_recall=0.0, one_diverged=0.99),
        *readme("one, the step of many", one_recall=0.999, one_diverged=0.0),
        *readme("many", many_recall_50=0.995, many_50_diverged=0.01),
        *readme("many, ten times the step", many_50_diverged=0.99),  # which nobody asks
        *readme("stream", stream_recall=0.9),
        *readme("stream, nothing replayed", stream_recall=0.2),
        *readme("capacity", capacity_recall_200=0.995),
        *readme("forgetting", forgetting_first_after=0.0, forgetting_second_after=0.9),
    ]
    for name, verdict in (
        ("one sequence is memorised", CONTRADICTED),
        ("one sequence is memorised with a smaller step", REPRODUCED),
        ("fifty sequences are memorised", REPRODUCED),
        ("gradients explode", CONTRADICTED),
        ("a stream needs replay", REPRODUCED),
        ("a second batch drives out the first", REPRODUCED),
    ):
        assert judged(records, name) == verdict
    (claim,) = [c for c in EXPERIMENT.claims if c.name == "one sequence is memorised"]
    assert "share diverged 0.991" in claim.without_control(records).evidence


@pytest.mark.parametrize(("ruled", "verdict"), [(0.0, REPRODUCED), (0.4, CONTRADICTED)])
def test_exceptions_are_recalled_and_not_guessed(ruled: float, verdict: str) -> None:
    shares = {"exceptions_recalled": 0.99, "exceptions_answered_by_rule": ruled}
    records = [
        r
        for model in ("nearest_neighbour", "kernel")
        for r in seeds(model, "tasks.material=numbers", **shares)
    ]
    assert judged(records, "what breaks a pattern is recalled") == verdict
