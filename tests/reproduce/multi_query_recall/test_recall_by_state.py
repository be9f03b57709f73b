"""The plot of recall against the state on constructed runs whose verdicts are known."""

from itertools import product
from typing import Any

import pytest

from bench.records.schema import Cost, RunRecord
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.multi_query_recall import runs as multi_query_recall
from reproduce.multi_query_recall.recall_by_state import EXPERIMENT, PATIENT, RULE, SUM
from tests.bench.records import make_record
from tests.configurations import make_plan
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.multi_query_recall.test_multi_query_recall import run, tuned
from tests.reproduce.plans import in_words

WIDTHS = (16, 64)
KNOWN = {  # accuracy at the most pairs, by model and taps
    ("conv_attention", None): 1.0,
    ("delta_net", 4): 1.0,
    ("delta_net", 1): 0.13,
    SUM: 0.4,
    ("h3", None): 0.5,
    ("hyena", None): 0.5,
    ("kda", None): 0.8,
    ("gated_delta_net", None): 0.6,
}


LONGER = multi_query_recall.NARROW_STEPS["laptop"]


def made(known: dict[tuple[str, int | None], float]) -> list[RunRecord]:
    """Of all kinds; of the two that are compared, also with more steps where they are narrowest."""
    plain = [
        _run(*kind, size, s, a) for kind, a in known.items() for size in WIDTHS for s in range(3)
    ]
    compared = [kind for kind in (RULE, SUM) if kind in known]
    return plain + [
        _run(*kind, WIDTHS[0], s, known[kind], steps=LONGER) for kind in compared for s in range(3)
    ]


def _run(
    model: str, taps: int | None, width: int, seed: int, accuracy: float, **changes: Any
) -> RunRecord:
    wobbled = min(accuracy + 0.001 * seed, 1.0)
    own = {"width": width, "accuracy_at_2": 1.0, "accuracy_at_8": wobbled, **changes}
    found = run("plain", model, seed, **own)
    config = {**found.config, "models": {**found.config["models"], "convolution": taps}}
    return found.model_copy(update={"config": config, "run_id": f"{found.run_id}-{taps}"})


def judged(known: dict[tuple[str, int | None], float]) -> dict[str, Any]:
    records = EXPERIMENT.select(made(known))
    return {c.name: c.rule.judge(records, 0.95).verdict for c in EXPERIMENT.claims}


def test_claims_hold_where_they_should() -> None:
    assert set(judged(KNOWN).values()) == {REPRODUCED}


def test_runs_of_more_steps_have_no_place_beside_the_others() -> None:
    longer = run("plain", "lstm", 0, steps=multi_query_recall.LONG_STEPS["laptop"])
    assert EXPERIMENT.select([run("plain", "lstm", 0), longer]) == [run("plain", "lstm", 0)]


def test_records_of_other_tasks_are_left_out() -> None:
    """Those that trained nothing by steps as well."""
    other = make_record(task="capacity", config={"tasks": {}, "models": {}, "training": {}})
    assert EXPERIMENT.select([other]) == []


@pytest.mark.parametrize("longer", [0.4, 1.0])
def test_rule_and_sum_are_compared_after_more_steps(longer: float) -> None:
    """Whatever they recall after those of the others."""
    others = [r for r in made(KNOWN) if multi_query_recall.steps(r) != LONGER]
    both = [_run(*SUM, 16, s, longer, steps=LONGER) for s in range(3)]
    both += [_run(*RULE, 16, s, 1.0, steps=LONGER) for s in range(3)]
    claim = next(c for c in EXPERIMENT.claims if "than a sum" in c.name)
    assert claim.rule.judge(EXPERIMENT.select(others), 0.95).verdict == UNDECIDED
    found = claim.rule.judge(EXPERIMENT.select([*others, *both]), 0.95).verdict
    assert found == (REPRODUCED if longer < 1 else CONTRADICTED)


@pytest.mark.parametrize(
    ("at_2", "at_8", "verdict"),
    [(1.0, 0.5, REPRODUCED), (1.0, 1.0, CONTRADICTED), (0.5, 0.125, UNDECIDED)],
)
def test_who_is_behind_has_learned_to_recall(at_2: float, at_8: float, verdict: str) -> None:
    """Whatever they recall after the steps of the others, where a guesser is far behind too."""
    guess = [_run("delta_net", 4, 64, seed, 1.0) for seed in range(3)]
    for model, steps in product(PATIENT, (None, multi_query_recall.LONG_STEPS["laptop"])):
        own = {"accuracy_at_2": at_2, "steps": steps} if steps else {"accuracy_at_2": 0.5}
        high = at_8 if steps else 0.125
        guess += [_run(model, None, 64, seed, high, **own) for seed in range(3)]
    claim = next(c for c in EXPERIMENT.claims if "Hyena" in c.name)
    assert claim.rule.judge(EXPERIMENT.select(guess), 0.95).verdict == verdict
    assert not [
        r for r in filter(multi_query_recall.belongs, guess) if multi_query_recall.steps(r) > 5000
    ]


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({("delta_net", 4): 0.9}, "the delta rule keeps every pair"),
        ({SUM: 1.0}, "the delta rule recalls more than a sum"),
        ({("delta_net", 1): 1.0}, "one layer needs its convolution"),
        ({("h3", None): 1.0}, "H3 and Hyena fall behind"),
        ({("kda", None): 0.6}, "decays by channel recall sooner"),
    ],
)
def test_another_system_does_not_pass(
    changed: dict[tuple[str, int | None], float], claim: str
) -> None:
    assert judged({**KNOWN, **changed})[claim] == CONTRADICTED


def test_two_that_guess_recall_alike_and_that_says_nothing() -> None:
    guessed = {("kda", None): 0.12, ("gated_delta_net", None): 0.12}
    assert judged({**KNOWN, **guessed})["decays by channel recall sooner"] == UNDECIDED


@pytest.mark.parametrize("failing", WIDTHS)
def test_every_width_is_asked(failing: int) -> None:
    """Whichever was trained last."""
    records = []
    for width in WIDTHS:
        started = f"2026-01-{width}T00:00:00+00:00" if width < 30 else "2026-02-01T00:00:00+00:00"
        accuracy = 0.6 if width == failing else 1.0
        for seed in range(3):
            one = _run("delta_net", 4, width, seed, accuracy)
            made_at = one.provenance.model_copy(update={"started_at": started})
            records.append(one.model_copy(update={"provenance": made_at}))
    claim = next(c for c in EXPERIMENT.claims if c.name == "the delta rule keeps every pair")
    assert claim.rule.judge(EXPERIMENT.select(records), 0.95).verdict == CONTRADICTED


def test_a_missing_row_decides_nothing() -> None:
    known = {kind: value for kind, value in KNOWN.items() if kind != SUM}
    assert judged(known)["the delta rule recalls more than a sum"] == UNDECIDED


def test_an_untrained_network_needs_no_convolution() -> None:
    """Both are at a guess, whatever joins a value to its key."""
    guess = {("delta_net", 4): 0.125, ("delta_net", 1): 0.125}
    assert judged({**KNOWN, **guess})["one layer needs its convolution"] == CONTRADICTED


def test_the_figure_beside_it_shows_models_as_they_come() -> None:
    """Its rows are told by width alone: a delta rule without a convolution is no second setting,
    and neither are more steps."""
    shown = list(filter(multi_query_recall.belongs, made(KNOWN)))
    kinds = {record.config["models"]["convolution"] for record in shown}
    assert LONGER not in map(multi_query_recall.steps, shown)
    assert 4 in kinds
    assert 1 not in kinds


def test_each_variant_is_a_row_of_its_own() -> None:
    records = EXPERIMENT.select(made(KNOWN))
    assert len(records) == len(KNOWN) * len(WIDTHS) * 3 + 2 * 3
    (panel,) = EXPERIMENT.draw(records).panels
    names = [trace.name for trace in panel.traces if trace.hollow is None]
    assert len(names) == len(KNOWN) + 2
    assert sum(name.endswith(f", {LONGER:,} steps") for name in names) == 2
    assert EXPERIMENT.table is not None
    assert EXPERIMENT.table(records).count("\n") == len(KNOWN) + 2 + 2
    rendered(EXPERIMENT.draw([]))


def test_what_no_table_ranks_is_hollow_and_says_why() -> None:
    """Of two widths of one model the narrow one has a search and has converged."""
    ranked = [tuned(_run("hyena", None, 16, seed, 0.5)) for seed in range(3)]
    records = ranked + [_run("hyena", None, 64, seed, 0.6) for seed in range(3)]
    picture = EXPERIMENT.draw(records)
    whole, hollow = picture.panels[0].traces
    assert (len(whole.x), hollow.hollow, list(hollow.x)) == (2, True, list(whole.x)[1:])
    rendered(picture)
    assert EXPERIMENT.table is not None
    row = EXPERIMENT.table(records).splitlines()[-1]
    assert row.startswith("| Hyena | 0.501 (8,000 bytes) | 0.601 (32,000 bytes, untuned")
    smoke = [record.model_copy(update={"preset": "smoke"}) for record in records]
    assert len(EXPERIMENT.draw(smoke).panels[0].traces) == 1


def test_a_model_that_says_nothing_of_its_state_has_a_row_and_no_point() -> None:
    silent = [
        _run("hyena", None, 64, seed, 0.5).model_copy(update={"cost": Cost()}) for seed in range(3)
    ]
    records = [*silent, *(_run("h3", None, 64, seed, 0.5) for seed in range(3))]
    assert EXPERIMENT.table is not None
    *_, last = lines = EXPERIMENT.table(records).splitlines()
    assert any("Hyena | 0.501 (bytes unknown" in line for line in lines)
    assert "state_bytes" in last
    assert last.endswith("Hyena.")
    picture = EXPERIMENT.draw(records)
    traces = {trace.name: trace for trace in picture.panels[0].traces}
    assert "Hyena" not in traces
    assert picture.note.endswith("does not say: Hyena")
    assert traces["H3"].x
    failed = _run("hyena", None, 64, 0, 0.5).model_copy(update={"outcome": "diverged"})
    failed = failed.model_copy(update={"metrics": {}})
    assert EXPERIMENT.table([failed]).endswith("| Hyena | none, 1 failed |\n")


def test_the_plan_holds_ten_architectures_at_three_sizes() -> None:
    entries = [
        e
        for words in in_words(EXPERIMENT.plan("laptop", None).sweeps)
        for e in make_plan([*words, "preset=laptop"]).entries
    ]
    rows = {(e.configuration.model, e.configuration.models.get("convolution")) for e in entries}
    assert len({model for model, _ in rows}) >= 10
    assert len({e.configuration.models["width"] for e in entries}) == 3


def test_no_model_is_searched_twice_in_one_cell() -> None:
    """Searches of few and of many data may come to two settings: two rows of one model."""
    searched = [
        (entry.configuration.model, repr(entry.configuration.resolved()))
        for words in in_words(EXPERIMENT.plan("laptop", None).sweeps)
        for entry in make_plan([*words, "preset=laptop"]).entries
    ]
    assert len(set(searched)) == len(searched)
