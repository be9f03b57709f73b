"""What a model keeps between calls, wherever it lies, is of no use in a process that was asked for
nothing else; honest guests have their records."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch.nn import functional

import bench
from bench import examine as examine_command
from bench.examination import fresh_process
from bench.examination.examination import examine
from bench.records.schema import RunRecord
from bench.training.building import initial_model
from bench.training.unfit import UnfitModel
from tests.bench.examination import remembering, remembering_beside
from tests.bench.examination.strangers import TOKENS

SETTINGS = {"training.steps": 3, "training.batch_size": 4, "training.warmup_steps": 1}
BETWEEN_CALLS = r"keeps something between calls"
FUTURE = rf"^the model sees the future.*asked for nothing else, other inputs.*{BETWEEN_CALLS}"


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    remembering_beside.KEPT.clear()
    remembering.HOLDER.kept.clear()
    for name in ("_answers_of_a_test", "_tables_of_a_test"):
        vars(functional).pop(name, None)
    for kind in (remembering.InADefault, remembering.Afterwards):
        assert kind.forward.__defaults__ is not None
        kind.forward.__defaults__[0].clear()
    monkeypatch.setattr(remembering_beside, "ALLOWED", True)


def run(kind: str, store: Path, **settings: Any) -> RunRecord:
    model = f"{remembering.__name__}.{kind}"
    settings = {**SETTINGS, **{key.replace("_", ".", 1): v for key, v in settings.items()}}
    return bench.run("bigram", model, store=store, device="cpu", settings=settings, quiet=True)


@pytest.mark.parametrize(
    "kind", [*("InADefault", "InAHelper", "InPyTorch", "InAnObject", "InAClosure"), "NeverCopied"]
)
def test_a_cache_is_named_wherever_it_lies(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = getattr(remembering, kind)(TOKENS)
    inputs = torch.randint(13, (8, 29), generator=torch.Generator().manual_seed(0))
    if kind in ("InADefault", "InAHelper", "InPyTorch"):  # one process alone shows nothing
        assert "causal by values" in examine(model, TOKENS, inputs).passed
    record = run(kind, tmp_path)
    assert (record.outcome, record.headline.value, record.metrics) == ("failed", None, {})
    assert "with its trained weights" not in str(record.cause)
    assert BETWEEN_CALLS in str(record.cause)


def test_the_sentence_says_where_the_future_was_seen(tmp_path: Path) -> None:
    cause = str(run("InADefault", tmp_path).cause)
    with pytest.raises(UnfitModel, match=FUTURE):
        raise UnfitModel(cause)
    assert "\n" not in cause


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("Afterwards", "sees the future with its trained weights: among processes"),
        (
            "Peeking",
            rf"with its trained weights.*one here.*{BETWEEN_CALLS}.*or on who asks",
        ),
    ],
)
def test_what_only_a_scored_answer_shows_is_named(kind: str, sentence: str, tmp_path: Path) -> None:
    record = run(kind, tmp_path, training_lr=1.0)
    assert record.outcome == "failed"
    with pytest.raises(UnfitModel, match=sentence):
        raise UnfitModel(str(record.cause))
    assert "test" not in record.metrics  # it ends before test data are scored


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("StopsElsewhere", r"in a process of its own.*ValueError: made where nobody may ask"),
        ("EndsElsewhere", r"in a process of its own.*SystemExit: 3"),
    ],
)
def test_a_model_of_one_process_alone_is_told(kind: str, sentence: str, tmp_path: Path) -> None:
    record = run(kind, tmp_path)
    assert record.outcome == "failed"
    with pytest.raises(UnfitModel, match=sentence):
        raise UnfitModel(str(record.cause))


@pytest.mark.parametrize("kind", ["KeepsTables", "NeverCopiedHonest", "Prints", "MasksHalf"])
def test_honest_guests_have_their_records(kind: str, tmp_path: Path) -> None:
    record = run(kind, tmp_path)
    assert (record.outcome, record.cause) == ("ok", None)
    assert record.headline.value is not None
    assert record.examination is not None
    assert "in new processes" in record.examination.trained


def test_a_run_that_was_saved_is_asked_elsewhere_again(tmp_path: Path) -> None:
    record = run("KeepsTables", tmp_path)
    words = [f"run={record.run_id}", f"store={tmp_path}", f"trust={__name__.partition('.')[0]}"]
    assert examine_command.main([*words, "write=false"]) == 0


def test_a_model_of_this_project_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh_process, "_servers", [])
    settings = {**SETTINGS, "models.width": 8}
    record = bench.run("bigram", "lstm", store=tmp_path, settings=settings, quiet=True)
    assert record.examination is not None
    assert "in new processes" not in record.examination.trained
    assert fresh_process._servers == []


def question(size: int) -> tuple[fresh_process.ModelRecipe, fresh_process.ModelQuestion]:
    settings = {"_target_": f"{remembering.__name__}.KeepsTables", "width": 8}
    recipe = fresh_process.ModelRecipe(settings, TOKENS, seed=3)
    inputs = torch.randint(13, (size, 20), generator=torch.Generator().manual_seed(1))
    return recipe, fresh_process.ModelQuestion(inputs, in_training=True)


@pytest.mark.bitwise
@pytest.mark.processes
def test_another_process_answers_by_the_weights_that_it_is_given() -> None:
    recipe, asked = question(5)
    cpu, reader = torch.device("cpu"), fresh_process.ModelReader(0, by_hidden=False)
    for kind in (torch.float32, torch.float64):
        model = initial_model(recipe.settings, TOKENS, 7, cpu).to(kind)
        for in_training in (False, True):
            answer = fresh_process.answer_elsewhere(
                recipe, reader, model, asked.inputs, in_training
            )
            assert torch.equal(answer, reader.read(model, asked.inputs, in_training))


@pytest.mark.processes
def test_a_server_that_was_killed_is_started_again_and_none_outlives_its_process() -> None:
    recipe, asked = question(4)
    reader = fresh_process.ModelReader(0, by_hidden=False)

    def answer() -> torch.Tensor:
        with fresh_process.asked_elsewhere(recipe, reader, asked) as answers:
            return answers()[fresh_process.EVAL_MODE]

    before = answer()
    first = fresh_process._servers[0].process
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert torch.equal(answer(), before)
    second = fresh_process._servers[0].process
    with fresh_process.asked_elsewhere(recipe, reader, asked):
        pass  # nobody waits for the answer, which must not be the next one's
    assert second.poll() is not None
    assert torch.equal(answer(), before)


@pytest.mark.processes
def test_the_server_ends_with_its_process() -> None:
    code = (
        "from bench.examination import fresh_process as f; f.start_server(); "
        "print(f._servers[0].process.pid)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    deadline = time.monotonic() + 120
    while psutil.pid_exists(int(ended.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(ended.stdout))
