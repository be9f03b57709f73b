"""A sweep worked out for a device that is not here."""

from pathlib import Path

import pytest
import torch

from bench.roofline.devices import device_like
from bench.roofline.training import Counter
from bench.search.forecast import Forecaster
from bench.sweep import main
from bench.training.flops import count_training_flops
from bench.training_speed import main as training_speed
from core.errors import OK, UserError
from tests.bench.conftest import TINY
from tests.configurations import compose, make_plan

WORDS = [*TINY, "models=gpt2", "models.heads=2", "training.validate_every=2"]
SPACE = "sweep.search_space={models.width:[8,16],training.lr:[1e-3,1e-4,1e-5]}"


def forecast(*words: str, device: str = "h100"):
    (entry,) = make_plan([*WORDS, *words, "n_trials=99", "seeds=3"]).entries
    return Forecaster(device_like(device)).model(entry), entry


def test_trials_and_final_runs_are_counted_as_a_sweep_makes_them() -> None:
    found, entry = forecast(SPACE)
    trials, finals = found.chain
    assert (len(trials), len(finals)) == (6, 2)  # the first final run has the weights of a trial
    assert found.alone.likely == pytest.approx(sum(s.likely for s in [*trials, *finals]))
    assert found.alone.low < found.alone.likely < found.alone.high
    assert found.bare.likely < found.alone.likely
    assert found.tokens > 0
    configuration = entry.at({"models.width": 16, "training.lr": 1e-3})
    counted = Counter().count(configuration)
    assert counted.checks == -(-counted.steps // 2)


def test_trials_of_one_shape_are_stacked_in_whatever_order_they_come() -> None:
    """Tiny steps are launches and nothing else: eight as one take far less than eight alone."""
    rates = ",".join(f"{n}e-4" for n in range(1, 9))
    space = f"sweep.search_space={{models.width:[8,16],training.lr:[{rates}]}}"
    near, _ = forecast(space, "stack=8", "sampler=grid")
    assert near.stack == 8
    assert near.stacked.likely < near.alone.likely
    swapped = f"sweep.search_space={{training.lr:[{rates}],models.width:[8,16]}}"
    far, _ = forecast(swapped, "stack=8", "sampler=grid")  # neighbours differ in width
    assert far.stack == 8
    assert far.stacked.likely < far.alone.likely


def test_flops_are_those_of_a_record() -> None:
    configuration = compose([*WORDS, "models.width=16"])
    from bench.training.building import build_model, build_task

    task = build_task(configuration)
    batch = task.training_batch(0, 0, configuration.training.batch_size)
    # On a GPU, padded: what the count is of; here the same model computes with numbers.
    model = build_model(configuration, task, 0)
    whole = count_training_flops(model, batch, lambda m, b: task.loss(m(b.inputs), b))
    counted = Counter().count(configuration)
    assert counted.step.flops == pytest.approx(whole, rel=0.25)  # batches differ in length
    assert counted.parameters == sum(p.numel() for p in model.parameters())
    assert counted.memory > 16 * counted.parameters


def test_a_dry_run_for_another_device_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    words = [*WORDS, f"store={store}", SPACE, "dry_run=true", "device_like=rtx4090"]
    before = torch.autocast
    assert main(words) == OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "RTX 4090" in shown
    assert "assumed, not measured" in shown
    assert "on the plan hardly gets faster" in shown
    assert not store.exists()
    assert torch.autocast is before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dry_run=true", "device_like=h1000"], "did you mean 'h100'.*rtx4090"),
        (["device_like=h100"], "add dry_run=true"),
        (["dry_run=true", "device_like=[h100,a100]"], "there is no device_like="),
    ],
)
def test_a_wrong_device_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        main([*WORDS, *words])
    assert "\n" not in str(caught.value)


def test_only_this_machine_can_be_held_against_real_steps() -> None:
    with pytest.raises(UserError, match="device_like=h100 cannot be measured here"):
        training_speed([*WORDS, "device_like=h100"])
