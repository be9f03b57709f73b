"""What presets and sweeps mean for a task of somebody else that says little or nothing of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import sweep, train
from bench.config import groups, source_files
from bench.config.settings import Configuration
from bench.records.code import forget_code
from bench.records.schema import read_records
from bench.search.plan import SweepPlan, plan_sweep
from bench.search.sweeping import note_on_trials
from core.errors import OK, UserError
from reproduce.claims.fairness import EDGE, FEWEST, LAST, TUNED, UNTUNED, marks

TASK = '''
from tasks.generated import GeneratedTask


class Repeated(GeneratedTask):
    """The token that stands there."""

    vocabulary, length = 4, 4
    {attributes}

    def __init__(self, evaluation_sequences: int = 16) -> None:
        super().__init__(evaluation_sequences)

    def draw(self, generator, count):
        tokens = generator.integers(0, 4, (count, 4))
        return tokens, tokens
'''
SHORT = "presets = {'laptop': {'training': {'steps': 40, 'lr': 1e-2}, 'models': {'width': 8}}}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(groups, "_tasks_from_outside", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("repeated", None)
    forget_code()


def planned(attributes: str = "", preset: str = "laptop", **words: Any) -> SweepPlan:
    Path("repeated.py").write_text(TASK.format(attributes=attributes))
    source_files.forget_edited()
    settings = {"tasks": "./repeated.py:Repeated", "models": ["lstm"], "preset": preset}
    return plan_sweep({**settings, **words})


@pytest.mark.parametrize("preset", ["laptop", "gpu", "paper"])
def test_beyond_smoke_the_defaults_allow_a_rank(here: Path, preset: str) -> None:
    plan = planned(preset=preset)
    (entry,) = plan.entries
    rates = entry.space["training.lr"]
    assert min(rates) < entry.configuration.training.lr < max(rates) or preset != "laptop"
    assert len(rates) >= 3  # of two the best always lies on an edge
    assert plan.settings.sampler == "grid"
    assert plan.settings.n_trials == entry.settings == len(rates)
    assert plan.settings.extend >= 1
    assert plan.settings.seeds >= 2
    training = entry.configuration.training
    assert training.steps is not None
    assert training.validate_every is not None
    late = range(training.validate_every, training.steps + 1, training.validate_every)
    assert sum(step >= (1 - LAST) * training.steps for step in late) >= FEWEST
    assert note_on_trials(plan) is None


def test_smoke_stays_short(here: Path) -> None:
    plan = planned(preset="smoke")
    (entry,) = plan.entries
    assert (plan.runs, plan.settings.extend, entry.configuration.training.steps) == (5, 0, 200)


def test_a_grid_of_a_task_or_a_person_is_tried_whole(here: Path) -> None:
    four = {"training.lr": [1e-4, 1e-3, 1e-2, 1e-1]}
    for preset in groups.PRESETS:
        of_task = planned(f"sweep = {{'search_space': {four}}}", preset)
        (entry,) = of_task.entries
        assert (of_task.settings.n_trials, dict(entry.space)) == (4, four)
    of_preset = planned(
        f"presets = {{'gpu': {{'training': {{'steps': 9}}, 'sweep': {{'search_space': {four}}}}}}}",
        "gpu",
    )
    assert of_preset.settings.n_trials == 4
    by_words = planned(**{"sweep.search_space": {"training.lr": [1e-3, 3e-3, 9e-3]}, "extend": 2})
    assert (by_words.settings.n_trials, by_words.settings.extend) == (3, 2)
    assert note_on_trials(by_words) is None
    fewer = planned(f"sweep = {{'search_space': {four}, 'n_trials': 2}}")
    assert fewer.settings.n_trials == 2
    drawn = planned(f"sweep = {{'search_space': {four}, 'sampler': 'random'}}")
    assert drawn.settings.n_trials == 3


def test_what_a_preset_of_a_task_says_stays(here: Path) -> None:
    def training(block: str, preset: str = "laptop") -> Any:
        plan = planned(f"presets = {{'{preset}': {{'training': {block}}}}}", preset)
        return plan.entries[0].configuration.training

    assert training("{'steps': 100}").validate_every == 5
    assert training("{'steps': 3}").validate_every == 1
    assert training("{'steps': 100, 'validate_every': 7}").validate_every == 7
    assert training("{'steps': 100, 'validate_every': None}").validate_every is None
    assert training("{'steps': 100}", "smoke").validate_every is None


def test_a_sweep_by_the_defaults_is_tuned_but_for_what_its_runs_show(here: Path) -> None:
    """Whether it has converged, and whether its best value lies inside, is for the runs to say."""
    planned(SHORT)
    words = ["tasks=./repeated.py:Repeated", "models=lstm", "preset=laptop", "workers=0"]
    assert sweep.main([*words, "extend=0", "seeds=2"]) == OK
    finals = [r for r in read_records([here / "runs" / "records"]) if r.role == "final"]
    assert len(finals) == 2
    assert all(record.study and len(record.study.trials) >= 3 for record in finals)
    (found, *_) = marks(finals)
    assert found.word != UNTUNED
    assert "validations over the last" not in " ".join(map(str, marks(finals)))
    assert found.word in (TUNED, EDGE) or "of the whole fall" in found.why


def test_tokens_in_and_classes_out_is_said_how(here: Path) -> None:
    planned("classes = 2")
    with pytest.raises(UserError) as refusal:
        train.main(["tasks=./repeated.py:Repeated", "models=lstm"])
    assert str(refusal.value).endswith(
        "channels and outputs; with tokens in, classes are tokens too, so leave classes out and "
        "let vocabulary be the larger of both numbers"
    )


def test_the_settings_of_a_single_run_are_those_of_the_preset(here: Path) -> None:
    planned()
    settings = {"tasks": "./repeated.py:Repeated", "models": "lstm", "preset": "laptop"}
    assert Configuration.of(settings).training.validate_every == 100
