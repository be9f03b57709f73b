"""What evidence costs on a device that is not here."""

from pathlib import Path

import pytest

from bench.config.command_line import read
from core.errors import UserError
from reproduce.__main__ import reproductions
from reproduce.planned import PlannedRun
from reproduce.planning.command import EvidenceRequest
from reproduce.planning.elsewhere import SpeedsElsewhere, chains
from tests.configurations import compose

WORDS = ["tasks=three_moons", "models=gpt2", "device=cpu", "training.steps=10"]


def run(role: str, seed: int, *words: str) -> PlannedRun:
    configuration = compose([*WORDS, f"seed={seed}", *words])
    key = f"{configuration.resolved()} {seed}"
    return PlannedRun(configuration, role, key, key)  # type: ignore[arg-type]


def test_runs_are_costed_by_counted_steps_on_the_device() -> None:
    slow, fast = SpeedsElsewhere([], "a100"), SpeedsElsewhere([], "h100")
    once, twice = run("single", 0), run("single", 0, "training.steps=20")
    for speeds in (slow, fast):
        cost = speeds.of(once)
        assert 0 < cost.low < cost.seconds < cost.high
        assert "steps counted for NVIDIA" in cost.sources[0]
        assert speeds.of(twice).seconds == pytest.approx(2 * cost.seconds, rel=0.2)
    # Without the making of batches, which is measured here and differs from time to time.
    own = once.configuration.of_training()
    assert fast.forecaster.training(own).bare.likely < slow.forecaster.training(own).bare.likely


def test_trials_come_before_final_runs_and_a_shared_training_is_in_once() -> None:
    runs = [run("trial", 0), run("trial", 1), run("final", 2), run("final", 2)]
    ((trials, finals),) = chains(runs, SpeedsElsewhere([], "h100"))
    assert (len(trials), len(finals)) == (2, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dry_run=true", "device_like=h1000"], "did you mean 'h100'"),
        (["device_like=h100"], "add dry_run=true"),
    ],
)
def test_a_wrong_device_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        EvidenceRequest.of(read([*words, f"store={tmp_path}"]), reproductions())
