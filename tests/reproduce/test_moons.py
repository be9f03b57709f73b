"""Figures 4, 5 and 10 on constructed networks whose verdicts are known."""

import pytest

from bench.records.schema import RunRecord
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.drawing.frame import View, framed
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Picture
from reproduce.plotting.renderer import render
from reproduce.three_moons import figure4, figure5, figure10
from reproduce.three_moons.moons import chosen
from tests.reproduce.records import moons

FIGURES = [(figure4.EXPERIMENT, 1), (figure5.EXPERIMENT, 3), (figure10.EXPERIMENT, 3)]


def verdicts(reproduction: Experiment, records: list[RunRecord]) -> set[str]:
    return {claim.without_control(records).verdict for claim in reproduction.claims}


@pytest.mark.parametrize(("reproduction", "heads"), FIGURES)
def test_networks_as_published_reproduce_every_claim(reproduction: Experiment, heads: int) -> None:
    runs = [moons(seed, heads, steps=heads == 3) for seed in range(6)]
    assert verdicts(reproduction, runs) == {REPRODUCED}
    assert verdicts(reproduction, runs[:1]) == {UNDECIDED}


@pytest.mark.parametrize(("reproduction", "heads"), FIGURES)
def test_networks_of_the_other_kind_contradict(reproduction: Experiment, heads: int) -> None:
    runs = [moons(seed, heads, steps=heads != 3) for seed in range(6)]
    assert verdicts(reproduction, runs) == {CONTRADICTED}


@pytest.mark.parametrize(("reproduction", "heads"), FIGURES)
def test_diverged_networks_contradict_and_are_named(reproduction: Experiment, heads: int) -> None:
    runs = [moons(seed, heads, steps=True, outcome="diverged") for seed in range(6)]
    assert verdicts(reproduction, runs) == {CONTRADICTED}
    evidence = reproduction.claims[0].without_control(runs).evidence
    assert "seed 5 diverged (the loss is not finite at step 7)" in evidence


def test_a_rollout_that_explodes_is_no_success() -> None:
    # It halves its error at the right place by accident, from a level that repeating cannot have.
    runs = []
    for seed in range(6):
        run = moons(seed, 3, steps=True)
        metrics = {
            name: 900.0 if name.startswith("error_before_p1") else value
            for name, value in run.metrics["test"].items()
        }
        runs.append(run.model_copy(update={"metrics": {"test": metrics}}))
    assert verdicts(figure5.EXPERIMENT, runs) == {CONTRADICTED}


def test_a_level_that_was_never_reached_counts_against_the_claim() -> None:
    runs = []
    for seed in range(6):
        run = moons(seed, 3, steps=True)
        metrics = {k: v for k, v in run.metrics["test"].items() if "half_error" not in k}
        runs.append(run.model_copy(update={"metrics": {"test": metrics}}))
    claims = figure5.EXPERIMENT.claims
    found = {claim.name: claim.without_control(runs).verdict for claim in claims}
    assert found["three heads, longest period, seen system"] == CONTRADICTED
    assert found["three heads, one step for each moon"] == REPRODUCED


def test_the_thick_curve_is_chosen_by_training_loss() -> None:
    runs = [moons(2, 3, steps=True), moons(0, 3, steps=False), moons(1, 3, steps=True)]
    best = chosen([*runs, moons(3, 3, steps=True, outcome="diverged")])
    assert best is not None
    assert best.seed == 0  # the entangled one, whose constructed training loss is lowest


def test_only_runs_of_the_published_network_belong_to_a_figure() -> None:
    run = moons(0, 3, steps=True)
    real = run.model_copy(
        update={"config": {**run.config, "models": {"heads": 3, "weights": "real"}}}
    )
    assert figure5.EXPERIMENT.select([run, real]) == [run]
    assert figure4.EXPERIMENT.select([run, real]) == []


@pytest.mark.parametrize(("reproduction", "heads"), FIGURES)
def test_equal_records_give_equal_bytes_and_failed_seeds_are_in_the_picture(
    reproduction: Experiment, heads: int
) -> None:
    runs = [moons(seed, heads, steps=True) for seed in range(2)]
    lost = moons(2, heads, steps=True, outcome="diverged")
    view = View("smoke")
    picture = _framed(reproduction, [*runs, lost], view)
    assert picture == _framed(reproduction, [*runs, lost], view)
    assert picture != _framed(reproduction, runs, view)
    texts = _texts(reproduction, [*runs, lost], view)
    assert "seed 2 diverged" in texts
    assert "seeds 0–2" in texts
    assert "smoke — not the paper's scale" in texts
    assert "not the paper's scale" not in _texts(reproduction, runs, View("paper"))


@pytest.mark.parametrize(("reproduction", "heads"), FIGURES)
def test_a_figure_without_any_result_is_still_drawn(reproduction: Experiment, heads: int) -> None:
    lost = [moons(seed, heads, steps=True, outcome="diverged") for seed in range(2)]
    assert "seed 1 diverged" in _texts(reproduction, lost, View("smoke"))
    assert reproduction.draw(lost).facts["lowest_training_loss"] is None


def _framed(reproduction: Experiment, records: list[RunRecord], view: View) -> Picture:
    return framed(reproduction.draw(records), records, view)


def _texts(reproduction: Experiment, records: list[RunRecord], view: View) -> str:
    import matplotlib.text

    figure = render(_framed(reproduction, records, view))
    return " ".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))
