"""What is named for an open claim can decide it: it asks the claim, and adds something to it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.records.schema import RunRecord
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions
from reproduce.capacity import capacity_growth
from reproduce.claims.claims import Claim
from reproduce.claims.history import history
from reproduce.claims.verdicts import NOT_ASKED, UNDECIDED
from reproduce.experiment import Experiment, OverSeeds
from reproduce.planning.console import in_hours
from reproduce.planning.experiments import DecidingRuns, experiments
from reproduce.planning.survey import Survey
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.plans import in_words

FIGURES = reproductions()
CLAIMS = [(name, claim) for name, figure in FIGURES.items() for claim in figure.claims]
README, FACTS = (
    "the README's perceptron, in proportion to its weights",
    "attention or MLP, 64 facts",
)


def survey_of(store: Path, preset: str, **figures: Experiment) -> Survey:
    settings = {"preset": preset, "store": str(store), "workers": 0}
    return Survey(figures, dict.fromkeys(figures, settings), preset, store)


def found_by(survey: Survey) -> dict[str, DecidingRuns]:
    return {one.claim: one for one in experiments(survey)}


def reopened(figure: str) -> Experiment:
    """A figure without its decisions."""
    own = FIGURES[figure]
    return replace(own, claims=tuple(replace(claim, closed=None) for claim in own.claims))


def records_at(figure: str, preset: str, *words: str) -> list[RunRecord]:
    """A record of each run, and of the predictors, of a figure's plan without sweeps."""
    plan = FIGURES[figure].plan(preset, None)
    assert not in_words(plan.sweeps)
    given = [f"tasks.{word}" for word in words]
    return [
        make_record(
            task=configuration.task,
            model=configuration.model,
            preset=preset,
            seed=configuration.seed,
            role=role,
            config=configuration.resolved(),
            arrays={},
        )
        for role, commands in (
            ("baseline", in_words(plan.baselines)),
            ("single", in_words(plan.runs)),
        )
        for configuration in (compose([*own, f"preset={preset}", *given]) for own in commands)
    ]


@pytest.mark.parametrize(
    ("figure", "claim"),
    [pytest.param(name, one, id=one.name) for name, one in CLAIMS if one.asked_with],
)
def test_a_claim_is_asked_with_the_words_that_it_declares_and_not_without(
    figure: str, claim: Claim
) -> None:
    words = [word for word in claim.asked_with.split() if not word.startswith("stories=")]
    without = claim.judge(records_at(figure, "paper")).finding
    assert (without.verdict, without.asked_at) == (NOT_ASKED, "paper")
    assert claim.judge(records_at(figure, "paper", *words)).finding.verdict != NOT_ASKED
    read_from_files = words == ["corpus=babistories"]
    assert read_from_files == ("stories=FOLDER" in claim.asked_with.split())


def test_no_claim_that_waits_for_a_corpus_lacks_the_word_for_it() -> None:
    declared = {(name, claim.name): claim.asked_with for name, claim in CLAIMS}
    waiting = 0
    for path in sorted((FOLDER / "verdicts").glob("*.json")):
        file = json.loads(path.read_text())
        for one in file["claims"]:
            if one["verdict"] == NOT_ASKED and (word := re.search(r"corpus=\w+", one["evidence"])):
                waiting += 1
                assert word[0] in declared[file["figure"], one["name"]].split(), one["name"]
    assert waiting


def test_the_words_of_a_claim_are_named_and_nothing_is_run_without_them(tmp_path: Path) -> None:
    words = {
        "counts of the corpus": "table1 preset=paper corpus=babistories stories=FOLDER",
        "stories, validation file": "table1 preset=paper corpus=babistories stories=FOLDER",
        "like TinyStories": "table1 preset=paper corpus=tinystories",
    }
    for preset in ("laptop", "paper"):
        survey = survey_of(tmp_path, preset, table1=FIGURES["table1"])
        assert survey.candidates == []
        found = found_by(survey)
        assert {name: one.words for name, one in found.items()} == words
        costs = {in_hours(one.cost, one.on_gpu) for one in found.values() if one.cost}
        # Nothing is trained, and counting a corpus takes minutes.
        assert costs == {
            "0 core-hours of training; to count two gigabytes of text, as the paper's corpora "
            "have, some 0.15 core-hours"
        }
    given = {"preset": "paper", "store": str(tmp_path), "corpus": "tinystories"}
    survey = Survey({"table1": FIGURES["table1"]}, {"table1": given}, "paper", tmp_path)
    (candidate,) = survey.candidates
    assert candidate.claims == {"like TinyStories"}


def test_a_closed_claim_gets_no_seeds(tmp_path: Path) -> None:
    survey = survey_of(tmp_path, "laptop", factual_recall=FIGURES["factual_recall"])
    assert survey.candidates == []
    closed = found_by(survey)[FACTS]
    # Somebody else's 60 new seeds of what the claim reads, which nobody here plans.
    assert closed.words == "factual_recall preset=laptop seeds=120"
    assert closed.cost is not None
    assert closed.cost.seconds > 0
    decision = '"attention or MLP, 64 facts" takes 60 seeds instead of 24'
    assert closed.closed.endswith(
        f"closed here by decision (reproduce/claims/history.yaml: {decision})"
    )
    # Without the decision it would get more; a larger preset has other facts, and does not ask it.
    survey = survey_of(tmp_path, "laptop", factual_recall=reopened("factual_recall"))
    (candidate,) = survey.candidates
    assert candidate.claims == {FACTS}
    assert found_by(survey)[FACTS].words == candidate.shown
    assert "seeds=" in candidate.shown


@pytest.mark.parametrize(("more", "named"), [({}, ""), ({"paper": 61}, "paper")])
def test_a_larger_preset_is_named_where_it_has_more_for_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, int], named: str
) -> None:
    """At every preset from laptop on the README's perceptron has the same settings."""
    seeds = {"laptop": 60, "gpu": 5, "paper": 5, **more}
    monkeypatch.setitem(capacity_growth.STORED_SEEDS, "paper", seeds["paper"])
    found = found_by(survey_of(tmp_path, "laptop", capacity_growth=reopened("capacity_growth")))
    one = found[README]
    assert one.verdict == UNDECIDED
    assert one.words == (f"capacity_growth preset={named}" if named else "")
    assert not one.closed


def test_more_runs_of_a_plan_that_a_claim_does_not_read_are_nothing_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = reopened("capacity_growth")

    def larger(preset: str) -> list[OverSeeds]:
        """More seeds at the larger presets, but of what the claim reads."""
        planned = []
        for runs in capacity_growth.PLANNED:
            if runs.models == ["stored_in_weights"]:
                runs = replace(runs, seeds=60)
            elif preset != "laptop":
                runs = replace(runs, seeds=runs.seeds + 9)
            planned.append(runs)
        return planned

    found = found_by(survey_of(tmp_path, "laptop", capacity_growth=replace(own, runs=larger)))
    assert found[README].words == ""


def test_whatever_is_closed_is_closed_by_a_decision_and_the_other_way_round() -> None:
    """The title of an entry of the history that is final and names the claim."""
    for figure, claim in CLAIMS:
        for decision, _ in (claim.closed or {}).values():
            (change,) = (change for change in history() if change.title == decision)
            assert claim.name in change.claims[figure]
            assert change.final
    closed = {(name, claim.name, at) for name, claim in CLAIMS for at in claim.closed or {}}
    final = {
        (figure, name)
        for change in history()
        if change.final
        for figure, names in change.claims.items()
        for name in names
    }
    for path in sorted((FOLDER / "verdicts").glob("*.json")):
        file = json.loads(path.read_text())
        for one in file["claims"]:
            if one["verdict"] == UNDECIDED and (file["figure"], one["name"]) in final:
                assert (file["figure"], one["name"], file["preset"]) in closed
