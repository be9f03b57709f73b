"""Measurements through the command line: their records, their models, what is refused."""

import pytest
import torch

from bench import evaluate, measure, train
from bench.records.schema import read_record
from bench.runs.get_or_run import get_or_run
from bench.runs.measuring import MeasuringRun
from bench.runs.serving import identify
from core.errors import UserError
from core.progress import silent
from tasks.interface import Evaluation
from tasks.measurement import Diverged
from tests.configurations import compose

WORDS = ["tasks=test_time_memory", "models=delta_rule", "tasks.counts=[4,8]", "tasks.items=8"]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    assert measure.main([*WORDS, f"store={store}"]) == 0
    (path,) = (store / "records").glob("*.json")
    return read_record(path), path


def test_the_record_is_like_any_other(record):
    made, _ = record
    assert (made.task, made.model, made.role, made.outcome) == (
        "test_time_memory",
        "delta_rule",
        "single",
        "ok",
    )
    assert made.headline.value == made.metrics["test"]["recall"]
    assert made.metrics["validation"].keys() == made.metrics["test"].keys()
    assert made.cost.state_bytes == made.metrics["test"]["state_bytes"]
    assert made.config["training"] == {"threads": 1}  # no other setting of a training decides
    assert made.weights_sha256 is None


def test_the_same_words_serve_the_record(record, capsys):
    _, path = record
    before = path.stat().st_mtime_ns
    assert measure.main([*WORDS, f"store={path.parents[1]}"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before


def test_evaluating_again_measures_again(record, capsys):
    made, path = record
    assert evaluate.main([f"run={made.run_id}", f"store={path.parents[1]}"]) == 0
    assert "every metric is that of the record" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "words", "sentence"),
    [
        (measure, [*WORDS[:1], "models=gpt2"], "models=gpt2 lies in models/, and test_time"),
        (train, ["tasks=regbench", "models=ridge"], "models=ridge lies in models/memories/"),
        (measure, [*WORDS[:1], "models=delta_rul"], "did you mean 'delta_rule'"),
        (measure, [*WORDS, "training.lr=1"], "is about trainings by the engine"),
        (measure, [*WORDS, "models.rat=1"], "did you mean 'models.rate'"),
        (measure, [*WORDS, "seeds=3"], "is a setting of bench.sweep; bench.train makes one run"),
        (measure, WORDS[:1], "choose a model with models=NAME; memories: "),
        (measure, [*WORDS, "models.rate=-1"], "rate"),
        (
            measure,
            ["tasks=capacity", "models=kernel", "tasks.widths=[a]"],
            "'a' should be a valid integer.* the kind of value that its YAML file has",
        ),
        (
            train,
            ["tasks=state_tracking", "models=lstm", "tasks.factors=[1,1.5]"],
            "tasks.factors=.*: 1.5 should be a valid integer",
        ),
        (
            measure,
            ["tasks=scaling_laws", "models=outer_product", "tasks.samples=[99999999999999999999]"],
            "counts are at most",
        ),
    ],
)
def test_mistakes_are_one_sentence(program, words, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence) as caught:
        program.main([*words, f"store={tmp_path}"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Diverged("the memory grew without bound"), "diverged"),
        (RuntimeError("no such kernel"), "failed"),
        (torch.OutOfMemoryError("no room"), "out_of_memory"),
    ],
)
def test_a_measurement_without_numbers_is_a_row_with_its_cause(
    error, outcome, tmp_path, monkeypatch
):
    configuration = compose([*WORDS, f"store={tmp_path}"])

    def stop(self, split):
        if split == "test":
            raise error
        return Evaluation({"recall": 1.0})

    monkeypatch.setattr(MeasuringRun, "measure", stop)
    made = get_or_run(configuration)
    assert made.outcome == outcome
    assert str(error) in str(made.cause)
    assert made.headline.value is None
    assert made.metrics["validation"] == {"recall": 1.0}


def test_a_memory_that_grew_without_bound_is_a_diverged_row(tmp_path, capsys):
    words = [WORDS[0], "models=neural_memory_linear", *WORDS[2:], "models.rate=1e6"]
    words += ["models.largest_surprise=null", f"store={tmp_path}"]
    assert measure.main(words) == 1
    assert "diverged: capacity: the memory answers with numbers" in capsys.readouterr().out
    (path,) = (tmp_path / "records").glob("*.json")
    made = read_record(path)
    assert made.outcome == "diverged"
    assert made.metrics["test"]["write_flops"] > 0  # what does have a number is kept


def test_an_interrupted_measurement_leaves_no_record(tmp_path, monkeypatch):
    def stop(self, split):
        raise KeyboardInterrupt

    monkeypatch.setattr(MeasuringRun, "measure", stop)
    with pytest.raises(KeyboardInterrupt):
        get_or_run(compose([*WORDS, f"store={tmp_path}"]), report=silent)
    assert not list(tmp_path.rglob("records/*.json"))


def test_the_seed_and_the_model_change_the_run_but_not_the_data():
    base = identify(compose(WORDS))
    seeded = identify(compose([*WORDS, "seed=1"]))
    other = identify(compose([*WORDS[:1], "models=ridge", *WORDS[2:]]))
    assert seeded.identity == base.identity
    assert seeded.run_id(1) != base.run_id(0)
    assert other.identity != base.identity
    assert other.provenance.data == base.provenance.data
