"""The command that shows continuations of several runs side by side."""

from pathlib import Path

import pytest
import torch
from markdown_it import MarkdownIt

from bench.prompts import main
from bench.writing.side_by_side import PromptSettings, offered_prompts, read_prompts
from core.errors import UserError
from core.words import texts
from models.gpt2 import GPT2
from tests.bench.test_generate import TOKENIZER, Text, model, saved  # noqa: F401 - a fixture

PROMPTS = ["The cat sat", 'Mia said, "I | like', "One day"]


def greedy_by_hand(network: GPT2, prompt: str, number: int) -> str:
    ids = TOKENIZER.encode(prompt)
    start = len(ids)
    with torch.no_grad():
        for _ in range(number):
            ids.append(int(network(torch.tensor([ids]))[0, -1].argmax()))
    assert TOKENIZER.end_of_text not in ids
    return TOKENIZER.decode(ids[start:])


def cells(markdown: str) -> list[list[str]]:
    """The table of a Markdown text, as another program reads it; line breaks are blanks."""
    rows: list[list[str]] = []
    for token in MarkdownIt().enable("table").parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            parts = token.children or []
            rows[-1].append("".join(p.content if p.type != "html_inline" else " " for p in parts))
    return rows


def test_each_run_has_a_column_with_its_own_continuations(
    tmp_path: Path,
    model: GPT2,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(1)
    other = GPT2(Text().specification(), width=16, layers=1, heads=2).eval()
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    first, second = saved(tmp_path, model), saved(tmp_path, other, seed=3)
    (tmp_path / "prompts.txt").write_text("\n\n".join(PROMPTS) + "\n")
    output = tmp_path / "folder" / "table.md"
    words = [
        f"runs=[{first},{second}]",
        f"prompts={tmp_path / 'prompts.txt'}",
        "beam=1",
        "new_tokens=6",
        f"store={tmp_path}",
        "trust=tests",
    ]
    assert main([*words, f"output={output}"]) == 0
    printed = capsys.readouterr().out
    assert f"written to {output}" in printed
    head, *rows = cells(output.read_text())
    assert [run in cell for cell, run in zip(head[1:], (first, second), strict=True)] == [True] * 2
    for prompt, row in zip(PROMPTS, rows, strict=True):
        expected = [prompt, *(greedy_by_hand(m, prompt, 6) for m in (model, other))]
        assert [" ".join(cell.split()) for cell in row] == [" ".join(e.split()) for e in expected]
    assert main(words) == 0  # a name of its own, below the store
    [path] = (tmp_path / "prompts").iterdir()
    assert path.read_text() == output.read_text()


def test_the_table_of_positions_limits_a_continuation_not_the_command(
    tmp_path: Path,
    model: GPT2,  # noqa: F811
) -> None:
    run = saved(tmp_path, model)
    almost = "the cat sat on the mat " * 6
    assert 40 < len(TOKENIZER.encode(almost)) <= 64
    long = "the cat sat on the mat " * 15
    assert len(TOKENIZER.encode(long)) > 65
    (tmp_path / "prompts.yaml").write_text(f"- '{almost}'\n- '{long}'\n")
    output = tmp_path / "table.md"
    words = [
        f"prompts={tmp_path / 'prompts.yaml'}",
        f"output={output}",
        f"store={tmp_path}",
        "trust=tests",
    ]
    assert main([f"runs={run}", "new_tokens=60", *words]) == 0
    _, fits, too_long = cells(output.read_text())
    assert len(fits[1]) > 10
    assert too_long[1].startswith("(no place: the prompt has")


def test_a_task_offers_its_prompts_to_the_models_that_it_measures() -> None:
    [path] = {offered_prompts(task) for task in ("babistories", "story_prompts", "wikipedia")}
    prompts = read_prompts(path)
    assert [prompt.group for prompt in prompts] == [
        *["factual"] * 9,
        *["reasoning"] * 9,
        *["consistency"] * 6,
    ]
    assert prompts[0].text == "Alice was so tired when she got back home so she went"
    for task in ("regbench", "a task of another package"):
        with pytest.raises(UserError, match="give a file by prompts=FILE"):
            offered_prompts(task)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no runs are given"),
        (["runs=[]"], "runs=[] cannot be used: give run ids with commas"),
        (["runs=a,,b"], "cannot be used: give run ids with commas"),
        (["run=a"], "did you mean 'runs'"),
        (["runs=a", "beam=0"], "beam=0 cannot be used"),
        (["runs=a", "new_tokens=many"], "new_tokens=many cannot be used"),
        (["runs=a", "output=table.html"], "name a file that ends .md"),
        (["table"], "cannot read 'table': settings are written key=value"),
    ],
)
def test_wrong_words_are_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        PromptSettings.of(texts(words))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.txt", b"\n \n", "holds no prompts"),
        ("empty.yaml", b"# nothing\n", "holds no prompts"),
        ("latin.txt", b"caf\xe9", "is not text in UTF-8"),
        ("broken.yaml", b"a: [1\nb: 2", "is not plain YAML"),
        ("a_tag.yaml", b"- !!int abc", "is not plain YAML (a tag in line 1)"),
        ("digits.yaml", b"- 1" + b"0" * 5000, "is not plain YAML (a long number in line 1)"),
        ("deep.yaml", b"[" * 100_000, "nested too deep"),
        ("number.yaml", b"- 3\n", "has 3 in the place of a prompt"),
        ("key.yaml", b"a:\n- text: x\n", "has {'text': 'x'} in the place of a prompt"),
        ("none.txt", None, "there is no file of prompts"),
    ],
)
def test_files_that_hold_no_prompts_are_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        read_prompts(tmp_path / name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_runs_that_cannot_be_read_are_named_before_anything_is_generated(
    tmp_path: Path,
    model: GPT2,  # noqa: F811
) -> None:
    run = saved(tmp_path, model)
    numbers = saved(tmp_path, model, "Numbers")
    (tmp_path / "p.txt").write_text("One day")
    rest = [f"prompts={tmp_path / 'p.txt'}", f"store={tmp_path}", "trust=tests"]
    with pytest.raises(UserError, match=r"the task numbers of .* is not one of text"):
        main([f"runs=[{run},{numbers}]", *rest])
    with pytest.raises(UserError, match="has 'nowhere' in its id"):
        main([f"runs=[{run},nowhere]", *rest])
    assert not (tmp_path / "prompts").exists()
