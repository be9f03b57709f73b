"""The `transformers` writer with a small GPT2 of random weights, saved and loaded as users do."""

import json
import sys
from pathlib import Path

import pytest

from tasks.text.recipe.__main__ import main
from tasks.text.recipe.errors import RecipeError, WriterError
from tasks.text.recipe.prompts import Prompt, draw_prompt, load_lists
from tasks.text.recipe.writers import NEW_TOKENS, TransformersWriter

transformers = pytest.importorskip("transformers")
LISTS = load_lists()
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}user: {{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %} story: {% endif %}"
)


def save_model(folder: Path, *, positions: int, template: str | None) -> None:
    import tokenizers
    import torch

    instructions = [
        draw_prompt(LISTS, 1, index).instruction(LISTS, ask_for_opening=False)
        for index in range(50)
    ]
    texts = [*instructions, *LISTS.openings, *LISTS.names, "user: story:\n\n"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    # Knowing no other bytes, even random weights write what the filters let pass.
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<end>"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<end>", eos_token="<end>"
    )
    fast.chat_template = template
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=positions,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, positions=320, template=TEMPLATE)
    return folder


def prompt(index: int, opening: str = "Deep in the wood,") -> Prompt:
    return Prompt(index, "Zora", "run", "ball", "red", ("dialogue",), opening)


def test_the_story_goes_on_from_its_opening(model: Path) -> None:
    writer = TransformersWriter(LISTS, model=str(model), seed=0)
    answers = [writer.write(prompt(index)) for index in range(3)]
    assert all(answer.text.startswith("Deep in the wood,") for answer in answers)
    assert all("<end>" not in answer.text and "Zora" not in answer.text for answer in answers)
    assert len({answer.text for answer in answers}) == 3
    assert {answer.model for answer in answers} == {str(model)}
    # Random weights end a story by chance only, once in 500 tokens.
    assert {answer.finish for answer in answers} <= {"stop", "length"}


def test_an_answer_follows_from_seed_and_index(model: Path) -> None:
    import torch

    writer = TransformersWriter(LISTS, model=str(model), seed=0)
    answers = [writer.write(prompt(index)).text for index in range(2)]
    state = torch.random.get_rng_state()
    torch.rand(3)
    again = TransformersWriter(LISTS, model=str(model), seed=0)
    assert [again.write(prompt(index)).text for index in (1, 0)] == answers[::-1]
    assert TransformersWriter(LISTS, model=str(model), seed=1).write(prompt(0)).text != answers[0]
    torch.random.set_rng_state(state)
    before = torch.random.get_rng_state()
    again.write(prompt(0))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_what_the_model_reads(template: str | None, tmp_path: Path) -> None:
    save_model(tmp_path, positions=1024, template=template)
    writer = TransformersWriter(LISTS, model=str(tmp_path), seed=0)
    calls = []
    generate = writer._model.generate

    def listen(inputs: object, **settings: object) -> object:
        calls.append((inputs, settings))
        return generate(inputs, **{**settings, "max_new_tokens": 3})

    writer._model.generate = listen
    writer.write(prompt(0, "Softly, the"))
    ((inputs, settings),) = calls
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    instruction = prompt(0).instruction(LISTS, ask_for_opening=False)
    expected = f"<end>user: {instruction} story: " if template else f"{instruction}\n\n"
    assert tokenizer.decode(inputs[0]) == expected + "Softly, the"
    # The sampling of the released recipe.
    assert settings["max_new_tokens"] == NEW_TOKENS == 512
    sampling = (settings["do_sample"], settings["temperature"], settings["top_p"])
    assert (*sampling, settings["top_k"]) == (True, 1, 1, 0)


def test_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["writer=transformers", f"model={model}", f"out={tmp_path}", "tokenizer=grammar"]
    assert main([*words, "stories=1"]) == 0
    first = (tmp_path / "answers.jsonl").read_bytes()
    assert main([*words, "stories=2"]) == 0
    assert (tmp_path / "answers.jsonl").read_bytes().startswith(first)
    stories = [json.loads(line) for line in (tmp_path / "stories.jsonl").read_text().splitlines()]
    log = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    kept = [line for line in log if line["verdict"] == "kept"]
    assert len(stories) == len(kept) == 2
    for text, line in zip(stories, kept, strict=True):
        assert text.startswith(line["opening"])
        assert line["model"] == str(model)


def test_a_model_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RecipeError, match="cannot be loaded") as caught:
        TransformersWriter(LISTS, model=str(tmp_path), seed=0)
    assert "\n" not in str(caught.value)


def test_a_context_too_short_is_one_sentence(tmp_path: Path) -> None:
    save_model(tmp_path, positions=20, template=None)
    writer = TransformersWriter(LISTS, model=str(tmp_path), seed=0)
    with pytest.raises(WriterError, match="reads at most 20 tokens, but a prompt has"):
        writer.write(prompt(0))


def test_a_pickled_model_is_not_opened(tmp_path: Path) -> None:
    import torch

    save_model(tmp_path, positions=320, template=None)
    (tmp_path / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(RecipeError, match="cannot be loaded"):
        TransformersWriter(LISTS, model=str(tmp_path), seed=0)


@pytest.mark.parametrize("package", ["transformers", "openai"])
def test_a_missing_package_is_one_sentence(
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    words = ["stories=1", f"out={tmp_path}", "model=m"]
    words += (
        ["writer=endpoint", "address=http://127.0.0.1:9/v1"]
        if package == "openai"
        else ["writer=transformers"]
    )
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert f"needs the package '{package}'; in the clone, python -m pip install" in printed
    assert "-e '.[recipe]' adds it" in printed
