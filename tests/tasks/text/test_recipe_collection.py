"""The collection of stories: kills, damage, repeated runs, and its report."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.text.grammar.stories import story
from tasks.text.recipe.__main__ import main
from tasks.text.recipe.answers import Answers
from tasks.text.recipe.collection import MOST_DROPPED_IN_A_ROW, CollectionJob, collect
from tasks.text.recipe.errors import RecipeError, WriterError
from tasks.text.recipe.filters import NEAR_DUPLICATE
from tasks.text.recipe.prompts import Prompt, draw_prompt, load_lists
from tasks.text.recipe.writers import WrittenStory
from tasks.text.tokenizers import load_tokenizer
from tests.conftest import Command

LISTS = load_lists()
FINAL = ("stories.jsonl", "prompts.jsonl", "report.json")


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def final(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FINAL}


def silent(description: str, done: int, total: int) -> None:
    pass


class Scripted:
    """A writer whose answer to an index is known; it can stop, and counts what it is asked."""

    model = "script"

    def __init__(self, texts: list[str], workers: int = 1, stops_at: int | None = None) -> None:
        self.texts, self.workers, self.stops_at = texts, workers, stops_at
        self.asked: list[int] = []
        self._lock = threading.Lock()

    def write(self, prompt: Prompt) -> WrittenStory:
        with self._lock:
            self.asked.append(prompt.index)
        if prompt.index == self.stops_at:
            raise WriterError("out of ink")
        time.sleep(0.003 * (prompt.index * 7 % 4))  # later questions are answered first
        return WrittenStory(
            self.texts[prompt.index], "script", "length" if prompt.index == 0 else "stop"
        )


def job(folder: Path, **changes: Any) -> CollectionJob:
    return CollectionJob(
        folder, **{"writer": "grammar", "model": "script", "seed": 0, **changes}, lists=LISTS
    )


TEXTS = [f"Tom has {number} cats." for number in range(40)]
TEXTS[3] = "Tom has a cat (big)."
TEXTS[5] = TEXTS[2]
TEXTS[9] = TEXTS[2].upper()
TEXTS[11] = "See http://cats"
KEPT_TEXTS = [text for number, text in enumerate(TEXTS) if number not in (3, 5, 9, 11)]


@pytest.mark.parametrize("workers", [1, 6])
def test_kept_stories_come_in_the_order_of_their_index(workers: int, tmp_path: Path) -> None:
    writer = Scripted(TEXTS, workers)
    report = collect(job(tmp_path), writer, 20, "grammar", silent)
    assert lines(tmp_path / "stories.jsonl") == KEPT_TEXTS[:20]
    # 24 answers give 20 stories: none is asked in vain, whatever the number of workers.
    assert sorted(writer.asked) == list(range(24))
    tokenizer = load_tokenizer("grammar")
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert {reason: count for reason, count in report["dropped"].items() if count} == {
        "parentheses": 1,
        "duplicate": 1,
        NEAR_DUPLICATE: 1,
        "URL": 1,
    }
    assert report["stories"] == 20
    assert report["answers"] == 24
    assert report["characters_per_story"] == sum(map(len, KEPT_TEXTS[:20])) / 20
    assert report["tokens"] == sum(len(tokenizer.encode(text)) for text in KEPT_TEXTS[:20])
    assert report["cut_at_limit_of_tokens"] == 1
    log = lines(tmp_path / "prompts.jsonl")
    assert [line["index"] for line in log] == list(range(24))
    assert log[5]["verdict"] == "duplicate"
    assert log[6]["verdict"] == "kept"
    for index, line in enumerate(log):
        assert {**line, **draw_prompt(LISTS, 0, index).facts()} == line
        assert line["model"] == "script"


def test_a_writer_that_stops_loses_nothing(tmp_path: Path) -> None:
    collect(job(tmp_path / "whole"), Scripted(TEXTS), 30, "grammar", silent)
    first = Scripted(TEXTS, workers=4, stops_at=12)
    with pytest.raises(WriterError, match="out of ink"):
        collect(job(tmp_path / "cut"), first, 30, "grammar", silent)
    assert lines(tmp_path / "cut" / "stories.jsonl") == KEPT_TEXTS[:8]  # of indices 0 to 11
    second = Scripted(TEXTS, workers=4)
    collect(job(tmp_path / "cut"), second, 30, "grammar", silent)
    answered = set(first.asked) - {12}
    assert answered.isdisjoint(second.asked)
    assert answered | set(second.asked) == set(range(34))
    assert final(tmp_path / "cut") == final(tmp_path / "whole")


def test_more_stories_later_and_fewer_again(tmp_path: Path) -> None:
    for stories in (5, 30, 8):
        writer = Scripted(TEXTS)
        collect(job(tmp_path), writer, stories, "grammar", silent)
        assert lines(tmp_path / "stories.jsonl") == KEPT_TEXTS[:stories]
    assert writer.asked == []


def test_a_torn_last_line_is_made_again_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    collect(job(tmp_path), Scripted(TEXTS), 10, "grammar", silent)
    whole = final(tmp_path)
    path = tmp_path / "answers.jsonl"
    content = path.read_bytes()
    last = len(content.splitlines()) - 1
    for cut in (1, 2, 40):
        path.write_bytes(content[:-cut])
        writer = Scripted(TEXTS)
        collect(job(tmp_path), writer, 10, "grammar", silent)
        assert writer.asked == [last]
        assert final(tmp_path) == whole
    path.write_bytes(content.replace(b'"index": 1,', b'"index" 1,'))
    with pytest.raises(RecipeError, match="line 2 of"):
        collect(job(tmp_path), Scripted(TEXTS), 10, "grammar", silent)


def test_lines_longer_than_a_read(tmp_path: Path) -> None:
    texts = ["a" * size for size in (4095, 4096, 4097, 20_000, 3)]
    with Answers(tmp_path / "answers") as answers:
        for index, text in enumerate(texts):
            answers.append(index, WrittenStory(text, "é", "stop"))
    with Answers(tmp_path / "answers") as answers:
        assert [answers.read(index).text for index in range(5)] == texts
        assert len(answers) == 5
        assert 5 not in answers


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": 1}, "seed=0, not 1"),
        ({"model": "another"}, "model=script, not another"),
        ({"writer": "transformers"}, "writer=grammar, not transformers"),
    ],
)
def test_another_collection_is_not_mixed_in(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    collect(job(tmp_path), Scripted(TEXTS), 2, "grammar", silent)
    before = final(tmp_path)
    with pytest.raises(RecipeError, match=sentence):
        collect(job(tmp_path, **changes), Scripted(TEXTS), 3, "grammar", silent)
    assert final(tmp_path) == before


def test_only_one_process_writes(tmp_path: Path) -> None:
    class Nested(Scripted):
        def write(self, prompt: Prompt) -> WrittenStory:
            with pytest.raises(RecipeError, match="another process"):
                collect(job(tmp_path), Scripted(TEXTS), 1, "grammar", silent)
            return super().write(prompt)

    assert collect(job(tmp_path), Nested(TEXTS), 2, "grammar", silent)["stories"] == 2


def test_a_writer_without_any_story_is_not_asked_for_ever(tmp_path: Path) -> None:
    writer = Scripted(["One cat.", *["one cat!"] * 1000])
    with pytest.raises(WriterError, match="none passed the filters"):
        collect(job(tmp_path), writer, 5, "grammar", silent)
    assert len(writer.asked) == 1 + MOST_DROPPED_IN_A_ROW
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["dropped"][NEAR_DUPLICATE] == MOST_DROPPED_IN_A_ROW


def test_tokens_without_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = collect(job(tmp_path), Scripted(TEXTS), 2, "unheard of", silent)
    assert report["tokens"] is None
    assert "unheard of" in report["tokens_missing_because"]


def test_the_command_writes_the_grammar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "stories"
    words = ["writer=grammar", "stories=50", f"out={out}", "seed=4"]
    assert main(words) == 0
    assert lines(out / "stories.jsonl") == [story(4, index) for index in range(50)]
    printed = capsys.readouterr().out
    assert "50 of 50 answers" in printed
    assert f"{json.loads((out / 'report.json').read_text())['tokens']:,}" in printed
    before = final(out)
    assert main(words) == 0
    assert final(out) == before
    assert main([*words[:3], "seed=5"]) == 2
    assert "seed=4, not 5" in capsys.readouterr().err
    assert main(["writer=grammar", "stories=5", f"out={out / 'stories.jsonl'}"]) == 2
    assert "is a file" in capsys.readouterr().err


def test_the_corpus_reader_understands_the_stories(tmp_path: Path) -> None:
    from tasks.text.corpora import stories_corpus

    assert main(["writer=grammar", "stories=60", f"out={tmp_path}"]) == 0
    corpus = stories_corpus("local", path=tmp_path / "stories.jsonl")
    read = [text for split in corpus.splits for text in corpus.documents(split)]
    assert sorted(read) == sorted(lines(tmp_path / "stories.jsonl"))


@pytest.mark.processes
def test_kill_at_any_moment_and_go_on(tmp_path: Path) -> None:
    count = 1000

    def command(out: Path) -> list[str]:
        words = ["writer=grammar", f"stories={count}", f"out={out}"]
        return [sys.executable, "-m", "tasks.text.recipe", *words]

    killed = tmp_path / "killed"
    answers = killed / "answers.jsonl"
    for size in (1, 160_000):
        process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL)
        while process.poll() is None and not (answers.exists() and answers.stat().st_size >= size):
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (killed / "stories.jsonl").exists()
    assert subprocess.run(command(killed), capture_output=True, check=True)
    assert main([*command(tmp_path / "whole")[3:]]) == 0
    assert final(killed) == final(tmp_path / "whole")
    assert sorted(line["index"] for line in lines(answers)) == list(range(len(lines(answers))))


@pytest.mark.processes
def test_help_needs_nothing_heavy(run_command: Command) -> None:
    listing = (
        "import sys, runpy\n"
        "sys.argv = ['recipe', '--help']\n"
        "try: runpy.run_module('tasks.text.recipe', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'openai', 'transformers', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    ended = run_command("-c", listing)
    assert ended.returncode == 0, ended.stderr
    assert "key_variable=" in ended.stdout


@pytest.mark.processes
def test_a_full_disk_is_one_sentence_and_loses_nothing(
    run_command: Command, tmp_path: Path
) -> None:
    words = ["writer=grammar", "stories=300", f"out={tmp_path}"]
    # A limit on the size of files fails writes in the middle of a line, as a full disk does.
    limited = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "from tasks.text.recipe.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    ended = run_command("-c", limited, *words)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "nothing that was already written is lost" in ended.stderr
    before = (tmp_path / "answers.jsonl").read_bytes()
    assert 90_000 < len(before) <= 100_000
    assert main(words) == 0
    assert (tmp_path / "answers.jsonl").read_bytes().startswith(before)
    assert lines(tmp_path / "stories.jsonl") == [story(0, index) for index in range(300)]
