"""Tasks that measure a model which another task trains: one training, several records."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.evaluate import main as evaluate
from bench.records.schema import RunRecord, read_record
from bench.runs.get_or_run import get_or_run
from bench.search.jobs import Job, execute
from bench.training import building, loop
from core.errors import UserError
from core.progress import silent
from tests.configurations import compose

pytestmark = pytest.mark.bitwise  # what is trained again, or served, is the same

STORIES = "".join(
    f"Once there was a cat named Number {k}. It saw {k + 2} birds and slept.\n" for k in range(400)
)
ARTICLE = " ".join(f"The river Iva has {k} bridges, and bridge {k} is old." for k in range(300))
SHORT = [
    "models=gpt2",
    "models.width=16",
    "models.layers=1",
    "models.heads=2",
    "training.steps=4",
    "training.warmup_steps=1",
    "training.validate_every=4",
    "training.batch_size=2",
    "tasks.length=32",
    "tasks.held_out_tokens=500",
    "tasks.estimate_windows=4",
    "tasks.corpus=local",
    "tasks.tokenizer=grammar",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "stories.txt").write_text(STORIES)
    (tmp_path / "wiki.txt").write_text(ARTICLE + "\n")
    return tmp_path


def words(place: Path, task: str, *more: str) -> list[str]:
    own = [f"tasks={task}", f"tasks.stories={place / 'stories.txt'}", f"store={place / 'store'}"]
    if task == "wikipedia":
        own += [f"tasks.wiki={place / 'wiki.txt'}", "tasks.windows=5"]
    return [*own, f"tasks.prepared={place / 'prepared'}", *SHORT, *more]


def forget() -> None:
    """As a new process would: a process reads its data once."""
    building._build_task.cache_clear()
    building._data_hashes.cache_clear()


def make(place: Path, task: str, *more: str) -> RunRecord:
    return get_or_run(compose(words(place, task, *more)))


def records_of(place: Path, task: str) -> list[Path]:
    return sorted((place / "store" / "records").glob(f"{task}-*.json"))


def test_one_training_serves_both_tasks(place: Path) -> None:
    on_articles = make(place, "wikipedia")
    assert on_articles.outcome == "ok", on_articles.cause
    (trained,) = (place / "store" / "work").glob("babistories-*")
    before = (trained / "weights.safetensors").stat().st_mtime_ns
    on_stories = make(place, "babistories")
    assert on_stories.run_id == trained.name
    assert on_stories.weights_sha256 == on_articles.weights_sha256
    assert (trained / "weights.safetensors").stat().st_mtime_ns == before  # not trained again
    assert on_stories.curves["training_loss"] == on_articles.curves["training_loss"]
    assert on_stories.metrics["validation"]["loss"] == on_articles.metrics["validation"]["loss"]
    other = compose(words(place, "wikipedia", "tasks.windows=3"))
    assert other.of_training().tasks == compose(words(place, "babistories")).tasks


def test_a_saved_run_is_measured_by_another_task(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make(place, "babistories")
    store = f"store={place / 'store'}"
    wiki = f"tasks.wiki={place / 'wiki.txt'}"
    stories = f"tasks.stories={place / 'stories.txt'}"
    run = f"run={record.run_id}"
    assert evaluate([run, store, "tasks=wikipedia", stories, wiki, "tasks.windows=5"]) == 0
    (path,) = records_of(place, "wikipedia")
    found = read_record(path)
    assert found.weights_sha256 == record.weights_sha256
    measured = f"run={found.run_id}"  # a run of the other task stands for the same model
    own = ["tasks.windows=3", "tasks.extension=1"]
    assert evaluate([measured, store, "tasks=attention", stories, wiki, *own]) == 0
    (of_attention,) = records_of(place, "attention")
    assert read_record(of_attention).weights_sha256 == record.weights_sha256
    assert evaluate([measured, store, "tasks=wikipedia", stories, wiki, "tasks.windows=4"]) == 0
    (path,) = [p for p in records_of(place, "wikipedia") if found.run_id == p.stem]
    path.unlink()
    shutil.rmtree(place / "store" / "work")
    assert make(place, "wikipedia").metrics == found.metrics  # trained anew: the same numbers
    for wrong, sentence in (
        ([run, store, "tasks=regbench"], "regbench trains its own models"),
        (
            [run, store, "tasks=wikipedia", stories, wiki, "tasks.length=16"],
            "decided how the run was trained",
        ),
        ([run, store, "tasks=wikpedia"], "did you mean 'wikipedia'"),
    ):
        with pytest.raises(UserError, match=sentence):
            evaluate(wrong)
    capsys.readouterr()


def test_a_training_that_diverges_is_kept_and_not_tried_by_each_task(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ("training.lr=1e30", "training.gradient_clip=0")
    first = make(place, "wikipedia", *lost)
    (path,) = records_of(place, "babistories")
    training = read_record(path)
    assert (first.outcome, training.outcome) == ("diverged", "diverged")
    assert training.cause is not None
    assert first.cause == f"in its training, {training.run_id}: {training.cause}"
    for record in (first, training):
        assert record.cost.training_steps > 0
        assert record.cost.parameters > 0
        assert record.curves["training_loss"] == training.curves["training_loss"]

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("it was tried again")

    monkeypatch.setattr(loop, "fit", again)
    other = make(place, "attention", "tasks.windows=3", "tasks.extension=1", *lost)
    assert (other.outcome, other.cause) == ("diverged", first.cause)
    path.unlink()  # of a record that is lost the folder of the run knows the end
    assert make(place, "babistories", *lost).metrics == training.metrics
    assert read_record(path).cause == training.cause
    kept = place / "store" / "work" / training.run_id / "diverged.json"
    kept.write_text(kept.read_text()[:50])
    path.unlink()
    with pytest.raises(UserError, match="damaged or edited: delete the folder"):
        make(place, "babistories", *lost)


def without_attention(place: Path, *more: str) -> list[str]:
    """The words of a model that has none."""
    own = [w for w in words(place, "attention", "models=lstm", *more) if "heads" not in w]
    return [word for word in own if word != "models=gpt2"]


def test_a_model_that_a_task_cannot_measure_is_refused_before_it_is_trained(place: Path) -> None:
    configuration = compose(without_attention(place))
    with pytest.raises(UserError) as error:
        get_or_run(configuration)
    assert str(error.value) == (
        "LSTM has no attention_of_last, which task 'attention' measures: choose memory_mosaic or "
        "gpt2"
    )
    refused = execute(Job("trial 0", configuration, "trial"), silent)  # of a sweep: a failed trial
    assert str(refused) == str(error.value)
    assert not [*(place / "store").rglob("*.safetensors"), *(place / "store").rglob("*.pt")]
    assert not (place / "store" / "records").exists()


def test_no_record_says_where_data_lay(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = make(place, "wikipedia")
    text = records_of(place, "wikipedia")[0].read_text()
    assert str(place) not in text
    facts: dict[str, Any] = record.arrays["corpus"]
    assert {split: facts[split]["corpus"] for split in facts} == {
        "train": "local",
        "valid": "local",
        "articles": "local",
    }
    run = [f"run={record.run_id}", f"store={place / 'store'}"]
    with pytest.raises(UserError, match=r"for you to say") as asked:  # a store may be a stranger's
        evaluate(run)
    noted = re.findall(r"tasks\.\S+=\S+", str(asked.value).replace(",", ""))
    assert evaluate([*run, *noted]) == 0  # as the sentence says
    forget()
    run.append(f"tasks.wiki={place / 'wiki.txt'}")
    moved = place / "moved.txt"
    (place / "stories.txt").rename(moved)
    with pytest.raises(UserError, match=r"stories\.txt"):
        evaluate(run)
    assert evaluate([*run, f"tasks.stories={moved}"]) == 0
    (place / "other.txt").write_text(STORIES.replace("cat", "dog"))
    with pytest.raises(UserError, match="not those that it was made with"):
        evaluate([*run, f"tasks.stories={place / 'other.txt'}"])
    again = make(place, "wikipedia", f"tasks.stories={moved}")  # served, and the place noted
    assert again.run_id == record.run_id
    with pytest.raises(UserError, match=r"moved\.txt, as its store noted"):
        evaluate(run)
    capsys.readouterr()


def test_the_same_text_elsewhere_is_the_same_run(place: Path) -> None:
    record = make(place, "babistories")
    elsewhere = place / "elsewhere.txt"
    shutil.copy(place / "stories.txt", elsewhere)
    again = make(place, "babistories", f"tasks.stories={elsewhere}")
    assert again.run_id == record.run_id
    elsewhere.write_text(STORIES.replace("cat", "dog"))
    forget()
    other = make(place, "babistories", f"tasks.stories={elsewhere}")
    assert other.run_id != record.run_id


def test_a_damaged_stream_is_refused(place: Path) -> None:
    make(place, "babistories")
    (tokens,) = (place / "prepared").glob("local-train-*/tokens.bin")
    content = bytearray(tokens.read_bytes())
    content[100] ^= 1
    tokens.write_bytes(content)
    forget()
    with pytest.raises(UserError, match="was changed after it was prepared"):
        make(
            place, "babistories", "training.lr=1e-4", f"tasks.prepared={place}/prepared/../prepared"
        )
    json.loads(records_of(place, "babistories")[0].read_bytes())
