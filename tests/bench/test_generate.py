"""The command that lets a saved run go on with a text."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from bench.generate import main
from bench.records.schema import write_record
from bench.records.store import Store
from bench.runs.saved import find_record, load_run
from bench.writing.continuations import GenerationSettings
from core.errors import UserError
from core.words import texts
from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task
from tasks.text.tokenizers import load_tokenizer
from tests.bench.records import make_record
from tests.configurations import compose

PROMPT = "Once upon a time, (there was"
TOKENIZER = load_tokenizer("grammar")


class Text(Task):
    """A task of text, as far as generation looks at it."""

    headline = Metric("loss", "minimise")
    tokenizer = TOKENIZER

    def specification(self) -> SequenceSpecification:
        return SequenceSpecification(maximum_length=64, vocabulary=TOKENIZER.vocabulary)

    def data_hashes(self) -> dict[str, str]:
        raise NotImplementedError

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        raise NotImplementedError

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        raise NotImplementedError

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        raise NotImplementedError


class Numbers(Text):
    """A task that is not one of text."""

    tokenizer = None  # type: ignore[assignment]


@pytest.fixture
def model() -> GPT2:
    torch.manual_seed(0)
    made = GPT2(Text().specification(), width=16, layers=1, heads=2)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made.eval()


def saved(store: Path, model: nn.Module, task: str = "Text", **changes: Any) -> str:
    """Write record and weights of a run as the engine does; its id."""
    weights = save(model.state_dict())
    config = compose(["tasks=regbench", "models=gpt2"]).resolved()
    config["tasks"] = {"_target_": f"{__name__}.{task}"}
    config["models"] = {"_target_": "models.gpt2.GPT2", "width": 16, "layers": 1, "heads": 2}
    fields = {"config": config, "weights_sha256": hashlib.sha256(weights).hexdigest()} | changes
    record = make_record(task=task.lower(), **fields)
    write_record(record, Store(store).records)
    path = Store(store).weights(record.run_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(weights)
    return record.run_id


def test_the_text_goes_on_with_the_likeliest_tokens(
    tmp_path: Path, model: GPT2, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path, model)
    ids = TOKENIZER.encode(PROMPT)
    start = len(ids)
    with torch.no_grad():
        for _ in range(12):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert TOKENIZER.end_of_text not in ids
    words = [f"run={run}", f"prompt={PROMPT}", "new_tokens=12", f"store={tmp_path}", "trust=tests"]
    assert main([*words, "beam=1"]) == 0
    printed = capsys.readouterr().out
    assert PROMPT + TOKENIZER.decode(ids[start:]) in printed
    assert "new tokens: 12, not ended" in printed

    assert main([*words, "count=2"]) == 0
    assert capsys.readouterr().out.count("log probability") == 2
    assert main([*words, "temperature=2", "count=3", "seed=1"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.count(PROMPT) == 3
    assert main([*words, "top_p=1", "temperature=2", "count=3", "seed=1"]) == 0
    assert capsys.readouterr().out == drawn


def test_the_end_mark_ends_a_text_and_is_not_printed(
    tmp_path: Path, model: GPT2, capsys: pytest.CaptureFixture[str]
) -> None:
    with torch.no_grad():  # nothing but positions, all the same, and the end mark follows them
        for parameter in model.parameters():
            parameter.zero_()
        position = torch.tensor([1.0, -1.0] * 8)
        model.get_parameter("position_table.weight").copy_(position.expand(64, 16))
        model.norm.weight.fill_(1.0)
        model.output_matrix[TOKENIZER.end_of_text] = 10 * position
    run = saved(tmp_path, model)
    assert main([f"run={run}", "prompt=", "new_tokens=9", f"store={tmp_path}", "trust=tests"]) == 0
    assert capsys.readouterr().out.startswith("new tokens: 1, ended, log probability: 0.00\n\n")


def test_refusals_are_one_sentence(tmp_path: Path, model: GPT2) -> None:
    run = saved(tmp_path, model)
    words = [f"run={run}", f"prompt={PROMPT}", f"store={tmp_path}", "trust=tests"]
    with pytest.raises(UserError, match="has a table of 64: ask for at most"):
        main([*words, "new_tokens=100"])
    numbers = saved(tmp_path, model, "Numbers")
    with pytest.raises(UserError, match=r"the task numbers of .* is not one of text"):
        main([f"run={numbers}", *words[1:]])
    with pytest.raises(UserError, match=r"tasks\.stories is part of the record"):
        main([*words, "tasks.stories=here"])
    with pytest.raises(UserError, match="2 runs have 'gpt2' in their id"):
        main(["run=gpt2", *words[1:]])
    with pytest.raises(UserError, match=r"no run in .* has 'other' in its id"):
        main(["run=other", *words[1:]])
    misspelt = run.replace("gpt2", "gtp2")
    with pytest.raises(UserError, match=f"has '{misspelt}' in its id.*; the nearest: .*{run}"):
        main([f"run={misspelt}", *words[1:]])


@pytest.mark.bitwise
def test_runs_are_found_by_id_part_or_file(tmp_path: Path, model: GPT2) -> None:
    run = saved(tmp_path, model)
    longer = saved(tmp_path, model, seed=11)
    assert find_record(run, tmp_path)[0].run_id == run
    assert find_record("s11", tmp_path)[0].run_id == longer
    path = tmp_path / "records" / f"{longer}.json"
    found = load_run(str(path), Path("elsewhere"), trust="tests")
    assert found.record.run_id == longer
    assert not found.model.training
    inputs = torch.arange(20)[None]
    assert torch.equal(found.model(inputs), model(inputs))


def test_runs_without_weights_are_refused(tmp_path: Path, model: GPT2) -> None:
    baseline = saved(tmp_path, model, role="baseline")
    with pytest.raises(UserError, match="a predictor without weights"):
        load_run(baseline, tmp_path)
    diverged = saved(tmp_path, model, seed=7, outcome="diverged", weights_sha256=None)
    with pytest.raises(UserError, match="ended as 'diverged' and has no weights"):
        load_run(diverged, tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run=x"], "no prompt is given"),
        (["prompt=x"], "no run is given"),
        (["Once"], "cannot read 'Once'"),
        (["rum=x"], "did you mean 'run'"),
        (["run=x", "prompt=y", "beam=two"], "beam=two cannot be used"),
        (["run=x", "prompt=y", "top_p=1.5"], "top_p=1.5 cannot be used"),
        (["run=x", "prompt=y", "temperature=0"], "temperature=0 .* above 0; beam=1 is greedy"),
        (["run=x", "prompt=y", "temperature=nan"], "temperature=nan .* above 0"),
        (["run=x", "prompt=y", "beam=2", "temperature=1"], "give one or the other"),
        (["run=x", "prompt=y", "count=3"], "give beam=3 or more"),
        (["run=x", "prompt=y", "locations=z"], "there is no setting 'locations'"),
    ],
)
def test_wrong_words_are_named(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        GenerationSettings.of(texts(words))


def test_a_prompt_is_taken_as_it_is() -> None:
    text = ' "a", {b: [c]} = d\\n$'
    settings = GenerationSettings.of(
        {"prompt": text, "run": "1e3", "temperature": "1", "count": "9"}
    )
    assert (settings.prompt, settings.run) == (text, "1e3")
    with_place = {"run": "x", "prompt": "", "tasks.stories": "a b"}
    assert GenerationSettings.of(with_place).locations == {"stories": "a b"}
