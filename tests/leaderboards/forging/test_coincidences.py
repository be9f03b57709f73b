"""What is notable of honest records, and refutes none of them."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.schema import Examination, RunRecord, Trial, read_record
from leaderboards.checks.agreement import SharedStatements
from leaderboards.checks.coincidences import coincidences
from leaderboards.checks.seeds import missing_seeds
from leaderboards.checks.studies import _study, not_as_chosen
from leaderboards.contents import Row
from leaderboards.tables.builder import build_board
from reproduce.claims.fairness import UNTUNED
from tests.committed import committed_paths

LOST = 0.25


def of_guest(record: RunRecord, name: str, **settings: Any) -> RunRecord:
    """The same run as one of a class of somebody's package, with settings of its own."""
    identity = hashlib.sha256(f"{name} {settings}".encode()).hexdigest()
    models = {**record.config["models"], "_target_": f"a_package.{name}", **settings}
    model_code = hashlib.sha256(name.encode()).hexdigest()
    code = record.provenance.model_copy(update={"model_code": model_code})
    changes = {
        "config": {**record.config, "models": models},
        "model": name,
        "label": name,
        "identity": identity,
        "run_id": f"{record.task}-{name}-smoke-{identity[:12]}-s{record.seed}",
        "provenance": code,
        "examination": Examination(before=["state bytes"]),  # its state was measured
        "study": None,
        "role": "single",
    }
    return record.model_copy(update=changes)


def rows_of(records: Sequence[RunRecord]) -> list[Row]:
    """The rows by headline of records that do not contradict each other."""
    together = SharedStatements()
    for record in records:
        together.take(record)
    return [row for row in build_board(records).rows if row.headline]


def test_a_switch_without_effect_and_an_unchanged_subclass_are_told(
    honest: list[RunRecord],
) -> None:
    off = [of_guest(record, "Switched", fused=False) for record in honest]
    on = [of_guest(record, "Switched", fused=True) for record in honest]
    rows = {(row.label, row.setting): row.note for row in rows_of([*honest, *off, *on])}
    assert rows == {
        ("GPT2", ""): "equal results to Switched (fused=False), Switched (fused=True)",
        ("Switched", "fused=False"): "equal results to GPT2, Switched (fused=True)",
        ("Switched", "fused=True"): "equal results to GPT2, Switched (fused=False)",
    }


def test_what_is_added_to_a_model_and_used_by_nothing_is_told(honest: list[RunRecord]) -> None:
    """Its weights are others, by the part that nothing depends on; its numbers are not."""
    more = [
        of_guest(record, "More").model_copy(update={"weights_sha256": f"{record.seed}" * 64})
        for record in honest
    ]
    assert {row.label: row.note for row in rows_of([*honest, *more])} == {
        "GPT2": "equal results to More",
        "More": "equal results to GPT2",
    }


def test_a_guest_without_chance_has_one_result_for_all_seeds(honest: list[RunRecord]) -> None:
    same = [
        of_guest(record, "Zeros").model_copy(
            update={"weights_sha256": "a" * 64, "curves": honest[0].curves}
        )
        for record in honest
    ]
    (row,) = rows_of(same)
    assert row.note == "its seeds 0, 1, 2 have the same weights"


def test_a_final_run_that_was_chosen_elsewhere_tells_of_no_study(honest: list[RunRecord]) -> None:
    cost = honest[0].cost.model_copy(update={"tuning_trials": 0})
    chosen_elsewhere = honest[0].model_copy(update={"study": None, "cost": cost})
    assert chosen_elsewhere.role == "final"
    assert _study(chosen_elsewhere) is None
    (row,) = rows_of([chosen_elsewhere])
    assert (row.mark, row.trials) == (UNTUNED, 0)
    (row,) = rows_of([chosen_elsewhere, *honest[1:]])  # its rivals' seeds tell of the search
    assert row.trials == len(honest[1].study.trials)  # type: ignore[union-attr]


def with_trials(record: RunRecord, changed: dict[str, Any], of_rivals: bool) -> RunRecord:
    """A record whose search tells other numbers of the trial that it chose, or of the others."""
    study = record.study
    assert study is not None
    chosen = {
        key: record.config[key.split(".")[0]][key.split(".")[1]] for key in study.search_space
    }
    trials: list[Trial] = [
        trial.model_copy(update=changed) if (trial.parameters != chosen) == of_rivals else trial
        for trial in study.trials
    ]
    return record.model_copy(update={"study": study.model_copy(update={"trials": trials})})


def test_a_trial_of_another_machine_is_told(honest: list[RunRecord]) -> None:
    record = honest[0]
    measured = record.metrics["validation"]["accuracy"]
    other = with_trials(record, {"value": measured + 0.01}, of_rivals=False)
    assert _study(other) is None
    (row,) = rows_of([other, *honest[1:]])
    assert f"accuracy {measured:.4g} on validation, and its search saw" in row.note
    assert not rows_of(honest)[0].note


def test_two_accounts_of_one_search_are_told(honest: list[RunRecord]) -> None:
    """Both found the same best setting; an accelerator rounds otherwise each time."""
    told = [with_trials(honest[0], {"value": LOST}, of_rivals=True), *honest[1:]]
    note = "its seeds tell of one search with different numbers of its trials"
    assert coincidences(told) == [note]
    on_gpu = {"device": "H200", "device_class": "H200"}
    on_gpus = [
        record.model_copy(update={"provenance": record.provenance.model_copy(update=on_gpu)})
        for record in told
    ]
    assert coincidences(on_gpus) == []


def test_a_seed_that_was_added_after_the_search_has_a_number_of_its_own() -> None:
    records = map(read_record, committed_paths("wikipedia/laptop/wikipedia-gpt2-laptop-*-s1"))
    record = next(one for one in records if one.study is not None)
    assert record.study is not None
    (seeds,) = {len(trial.over_seeds) for trial in record.study.trials if trial.over_seeds}
    name = record.headline.name
    worse = {**record.metrics, "validation": {name: 1.1 * record.metrics["validation"][name]}}
    for seed in range(1, seeds):
        own = record.model_copy(update={"seed": seed, "metrics": worse})
        assert f"seed {seed} has {name}" in not_as_chosen(own)
    assert not not_as_chosen(record.model_copy(update={"seed": seeds, "metrics": worse}))


@pytest.mark.parametrize(
    ("runs", "clause"),
    [
        ([(0, 0)], ""),
        ([(0, 0), (0, 1), (0, 2)], ""),
        ([(0, 1)], "seeds 0–1 of which 0 is missing"),
        ([(0, s) for s in (1, 3, 4, 6, 7, 8)], "seeds 0–8 of which 0, 2, 5 are missing"),
        ([(0, s) for s in range(5, 10)], "seeds 0–9 of which 0–4 are missing"),
        # A sweep numbers the seeds of further data seeds on; a figure takes seed 0 for each.
        ([(0, 0), (1, 1), (2, 2)], ""),
        ([(0, 0), (1, 0), (2, 0)], ""),
        ([(d, 3 * d + s) for d in range(3) for s in range(3)], ""),
        ([(0, 0), (2, 2)], "data seeds 0–2 of which 1 is missing"),
        ([(0, 0), (1, 5)], "of data seed 1 seeds 1–5 of which 1–4 are missing"),
    ],
)
def test_seeds_that_are_left_out_are_named(runs: list[tuple[int, int]], clause: str) -> None:
    assert missing_seeds(runs) == clause


@given(st.sets(st.integers(0, 40), min_size=1))
def test_every_gap_is_named_and_nothing_else(seeds: set[int]) -> None:
    told = missing_seeds((0, seed) for seed in seeds)
    missing = set(range(max(seeds))) - seeds
    assert bool(told) == bool(missing)
    listed = re.sub(r".*of which (.*?)( and \d+ stretches more)? (is|are) missing", r"\1", told)
    named = set()
    for part in filter(None, listed.split(", ")):
        first, _, last = part.partition("–")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == missing or (named < missing and "stretches more" in told)


def test_chosen_seeds_are_told_wherever_the_row_is(honest: list[RunRecord]) -> None:
    from leaderboards.markdown import table
    from leaderboards.views.overview import lacks
    from leaderboards.views.sentences import notes

    some = [honest[2], honest[1]]
    row = next(row for row in rows_of(some) if row.headline)
    told = "seeds 0–2 of which 0 is missing"
    assert row.note == told
    assert told in table([row])
    assert any(told in note for note in notes([row]))
    assert told in lacks(row)
    content = json.loads(json.dumps(vars(row)))
    assert content["note"] == told
