"""What a dry run says, and that it leaves nothing behind."""

from dataclasses import replace

import joblib
import pytest

from bench.records.store import Store
from bench.runs.get_or_run import load_or_run
from bench.search.estimate import Estimate, estimate, print_estimates
from bench.search.model_search import ModelSearch
from bench.search.placement import workers_at_once
from bench.search.storage import open_storage
from bench.sweep import main
from core.errors import OK, RUN_FAILED
from core.progress import duration, silent
from tests.bench.conftest import TINY
from tests.configurations import compose, make_plan


def test_dry_run_of_what_cannot_run_fails(capsys):
    words = ["tasks=multi_query_recall", "models=window_hybrid", "dry_run=true", "device=cpu"]
    assert main(words) == RUN_FAILED
    assert "no estimate: models" in " ".join(capsys.readouterr().out.split())


def test_dry_run_writes_nothing(tmp_path, capsys):
    store = tmp_path / "store"
    space = "sweep.search_space={training.lr:[1e-3,1e-4],models.width:[4,16]}"
    words = [*TINY, "models=lstm", f"store={store}", space, "n_trials=9", "seeds=3"]
    assert main([*words, "dry_run=true", "extend=3"]) == OK
    shown = capsys.readouterr().out
    assert "up to 3 on each side of a key, which are not counted here" in " ".join(shown.split())
    assert "dry run, as if there were no record yet; nothing was written" in shown
    assert not store.exists()
    default, largest, *_ = [line for line in shown.splitlines() if "LSTM" in line]
    assert default.split()[5:9:2] == ["4", "7"]  # 4 settings in all, and 3 seeds
    assert "largest" in largest
    assert "n_trials=9, but the search space has only 4 settings" in shown
    # As many as the progress of the sweep itself counts.
    entry = make_plan(words).entries[0]
    model_search = ModelSearch(entry, open_storage("journal", tmp_path), Store(tmp_path))
    assert model_search.runs == 7


def test_dry_run_counts_the_flops_that_records_have(tmp_path):
    """Of sequences of unequal length, whose batches have unequal numbers of positions."""
    words = ["tasks=regbench", "preset=smoke", "training.steps=12", "training.batch_size=2"]
    plan = make_plan([*words, "models=[lstm]", "n_trials=1", "sweep.seeds=1"])
    (found,) = estimate(replace(plan, entries=[replace(plan.entries[0], space={})]), silent)
    run = compose([*words, "models=lstm", f"store={tmp_path}", "committed=false"])
    record, _ = load_or_run(run)
    # A trial, of which the final run takes the weights.
    assert found.flops == pytest.approx(record.cost.training_flops, rel=0.02)


def test_dry_run_of_a_search_without_sizes_speaks_of_none(tmp_path, capsys):
    words = [*TINY, "models=lstm", f"store={tmp_path / 'store'}", "dry_run=true"]
    assert main([*words, "sweep.search_space={training.lr:[1e-3,1e-4]}"]) == OK
    shown = capsys.readouterr().out
    assert "LSTM" in shown
    assert "largest" not in shown
    assert "default" not in shown


def test_a_model_that_stops_with_any_error_has_no_estimate_and_the_others_have_one(
    tmp_path, monkeypatch
):
    lines = ["from torch import nn", "class Bad(nn.Module):", "    def __init__(self, task):"]
    (tmp_path / "bad_package.py").write_text("\n".join([*lines, "        {}['missing']"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [*TINY, "models=[lstm,+bad_package.Bad]", "n_trials=1", "sweep.search_space={}"]
    for device in ([], ["device_like=h100", "dry_run=true"]):
        sound, bad = estimate(make_plan([*words, *device]), silent)
        assert (sound.cause, sound.flops > 0) == (None, True)
        assert bad.cause == f"KeyError: 'missing' in {tmp_path / 'bad_package.py'}, line 4"


@pytest.mark.parametrize(("n_trials", "workers"), [(8, 1), (9, 4)])
def test_the_total_is_shared_by_as_many_workers_as_the_sweep_would_start(
    n_trials, workers, monkeypatch, capsys
):
    """Smoke takes all cores from ten runs on."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)
    words = ["tasks=regbench", "models=lstm", "preset=smoke", "device=cpu", "seeds=1"]
    plan = make_plan([*words, f"n_trials={n_trials}", "dry_run=true"])
    assert workers_at_once(plan.entries[0].configuration, plan.runs) == (workers > 1) * workers
    hour = Estimate("models=lstm", "LSTM", "default", n_trials, n_trials + 1, 1, 1.0, 3600.0)
    print_estimates([hour], plan)
    shown = capsys.readouterr().out
    assert f"the total with {workers} at a time" in " ".join(shown.split())
    (total,) = [line for line in shown.splitlines() if "all" in line.split()]
    assert duration(3600 / workers) in total
