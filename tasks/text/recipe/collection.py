"""The collection: a job that can be killed at any moment and goes on where it was.

In its folder lie

- ``job.json``: what the collection is made of; it goes on only under the same settings,
- ``answers.jsonl``: every answer, appended as it comes, the one file that cannot be made again,

and, written from these at the end of every run, whether it was complete or not,

- ``stories.jsonl``: one story in each line as a JSON string, the format of BabiStories,
- ``prompts.jsonl``: for each index what was asked, who answered, and the verdict of the filters,
- ``report.json``: the counts of Table 1.

Stories are the first ``stories`` that the filters keep, by index. What is asked therefore never
depends on how many workers there are, nor on where a run was stopped.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from tasks.text.errors import TextError
from tasks.text.recipe.answers import Answers
from tasks.text.recipe.errors import RecipeError, WriterError
from tasks.text.recipe.filters import KEPT, REASONS, Judge
from tasks.text.recipe.prompts import Lists, draw_prompt
from tasks.text.recipe.writers import NEW_TOKENS, TEMPERATURE, TOP_P, Writer, WrittenStory

FORMAT = 1
# A writer of whom nothing passes the filters would be asked for ever.
MOST_DROPPED_IN_A_ROW = 200
TEXTS_AT_ONCE = 1000

# report(description, done, total): cheap, called often.
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CollectionJob:
    """What a collection is made of.

    Attributes:
        folder: where it lies.
        writer: "endpoint", "transformers" or "grammar".
        model: as the writer names it.
        seed: of the prompts.
        lists: what the prompts are drawn from.
    """

    folder: Path
    writer: str
    model: str
    seed: int
    lists: Lists

    def facts(self) -> dict[str, Any]:
        """All that decides about the answers, as JSON."""
        return {
            "format": FORMAT,
            "writer": self.writer,
            "model": self.model,
            "seed": self.seed,
            "lists_sha256": self.lists.sha256,
            "temperature": TEMPERATURE,
            "top_p": TOP_P,
            "new_tokens": NEW_TOKENS,
        }


@dataclass
class Judged:
    """One answer after the filters."""

    index: int
    answer: WrittenStory
    story: str
    verdict: str


class Judging:
    """The answers of a job judged in the order of their index, as far as they are there."""

    def __init__(self, job: CollectionJob, answers: Answers) -> None:
        self._job, self._answers = job, answers
        self._judge = Judge()
        self.next = 0
        self.kept = 0
        self.dropped_in_a_row = 0

    def advance(self, stories: int) -> Iterator[Judged]:
        """Judge on until ``stories`` are kept or an answer is not there yet."""
        while self.kept < stories and self.next in self._answers:
            answer = self._answers.read(self.next)
            # The other writers put the opening there themselves, or never read the prompt.
            by_endpoint = self._job.writer == "endpoint"
            opening = draw_prompt(self._job.lists, self._job.seed, self.next).opening
            story, verdict = self._judge.verdict(answer.text, opening if by_endpoint else None)
            self.kept += verdict == KEPT
            self.dropped_in_a_row = 0 if verdict == KEPT else self.dropped_in_a_row + 1
            self.next += 1
            yield Judged(self.next - 1, answer, story, verdict)


def collect(
    job: CollectionJob, writer: Writer, stories: int, tokenizer: str, report: Report
) -> Any:
    """Ask until ``stories`` are kept, then write the files and return the report.

    Args:
        job: what is collected; ``job.folder`` is made, or gone on with.
        writer: whom to ask, from ``writer.workers`` threads.
        stories: how many to keep.
        tokenizer: by which tokens are counted; if it cannot be had, the report says so.
        report: told how many stories are kept.

    Raises:
        WriterError: the writer stopped, or none of many answers passed the filters. The files then
            hold what there is, and the same call goes on.
        RecipeError: the folder holds another collection, or another process works on it.
        KeyboardInterrupt: after the answers under way have come in and the files are written.
        OSError: a full disk.
    """
    # Files are written after a stop as well: what was kept can be read at any time.
    with _claimed(job), Answers(job.folder / "answers.jsonl") as answers:
        try:
            _ask(job, writer, answers, stories, report)
        except (WriterError, KeyboardInterrupt):
            _write_files(job, answers, stories, tokenizer, report)
            raise
        return _write_files(job, answers, stories, tokenizer, report)


@contextmanager
def _claimed(job: CollectionJob) -> Iterator[None]:
    """The folder of the job, held by this process alone and of this job alone."""
    from filelock import FileLock, Timeout

    if job.folder.exists() and not job.folder.is_dir():
        raise RecipeError(f"out={job.folder} is a file; name a folder")
    job.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(job.folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RecipeError(
            f"another process is writing {job.folder}; wait for it, or name another out="
        ) from None
    try:
        _check_same(job)
        yield
    finally:
        lock.release()


def _check_same(job: CollectionJob) -> None:
    path, answers = job.folder / "job.json", job.folder / "answers.jsonl"
    facts = job.facts()
    if not answers.exists() or not answers.stat().st_size:  # nothing that could be mixed up
        with _replacing(path) as file:
            file.write(json.dumps(facts, indent=2) + "\n")
        return
    if not path.exists():
        raise RecipeError(f"{job.folder} holds answers without their job.json; name another out=")
    try:
        saved = json.loads(path.read_bytes())
        differing = [key for key in facts if saved[key] != facts[key]]
    except (ValueError, KeyError, TypeError):
        raise RecipeError(f"{path} was damaged; name another out=") from None
    if differing:
        key = differing[0]
        difference = f"{key}={saved[key]}, not {facts[key]}"
        raise RecipeError(
            f"{job.folder} holds a collection of "
            f"{'other word lists' if key == 'lists_sha256' else difference}; "
            "name another out=, or give the same settings"
        )


def _ask(
    job: CollectionJob, writer: Writer, answers: Answers, stories: int, report: Report
) -> None:
    judging = Judging(job, answers)
    running: dict[Future[WrittenStory], int] = {}
    with ThreadPoolExecutor(writer.workers, thread_name_prefix="writer") as threads:
        try:
            _judge(judging, stories)
            judging.dropped_in_a_row = 0  # an earlier run's; the user wants to try again
            ahead = judging.next
            while judging.kept < stories:
                report("stories", judging.kept, stories)
                # Every answer up to this bound is needed, even if no filter drops a story.
                bound = judging.next + stories - judging.kept
                while ahead < bound and len(running) < writer.workers:
                    if ahead not in answers:
                        prompt = draw_prompt(job.lists, job.seed, ahead)
                        running[threads.submit(writer.write, prompt)] = ahead
                    ahead += 1
                _take(running, answers)
                _judge(judging, stories)
                if judging.dropped_in_a_row >= MOST_DROPPED_IN_A_ROW:
                    raise WriterError(
                        f"of the last {judging.dropped_in_a_row} answers none passed the filters; "
                        f"see the verdicts in {job.folder / 'prompts.jsonl'} and try another model"
                    )
            report("stories", judging.kept, stories)
        except (WriterError, KeyboardInterrupt):
            under_way = len(running)
            while running:  # these were asked already; what comes is kept
                report("answers under way", under_way - len(running), under_way)
                with suppress(WriterError):
                    _take(running, answers)
            raise


def _judge(judging: Judging, stories: int) -> None:
    for _ in judging.advance(stories):
        pass


def _take(running: dict[Future[WrittenStory], int], answers: Answers) -> None:
    """Wait for an answer and keep all that have come; then raise the first failure among them."""
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    failures = []
    for future in finished:
        # All that came are kept before any failure is raised.
        index = running[future]
        if (failure := future.exception()) is None:
            answers.append(index, future.result())
        else:
            failures.append(failure)
        del running[future]
    if failures:
        raise failures[0]


def _write_files(
    job: CollectionJob, answers: Answers, stories: int, tokenizer: str, report: Report
) -> dict[str, Any]:
    dropped = dict.fromkeys(REASONS, 0)
    characters = cut = 0
    folder = job.folder
    judging = Judging(job, answers)
    with _replacing(folder / "stories.jsonl") as texts, _replacing(folder / "prompts.jsonl") as log:
        for judged in judging.advance(stories):
            prompt = draw_prompt(job.lists, job.seed, judged.index)
            origin = {"model": judged.answer.model, "finish": judged.answer.finish}
            line = {**prompt.facts(), **origin, "verdict": judged.verdict}
            log.write(json.dumps(line) + "\n")
            if judged.verdict != KEPT:
                dropped[judged.verdict] += 1
                continue
            texts.write(json.dumps(judged.story) + "\n")
            characters += len(judged.story)
            cut += judged.answer.finish == "length"
            report("files", judging.kept, stories)
    facts = {
        "writer": job.writer,
        "model": job.model,
        "seed": job.seed,
        "stories": judging.kept,
        "wanted": stories,
        "answers": judging.next,
        "dropped": dropped,
        "characters_per_story": characters / judging.kept if judging.kept else None,
        "cut_at_limit_of_tokens": cut,
        **_tokens(folder / "stories.jsonl", tokenizer, judging.kept, report),
    }
    with _replacing(folder / "report.json") as file:
        file.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return facts


def _tokens(path: Path, name: str, stories: int, report: Report) -> dict[str, Any]:
    """Tokens of all stories, without end marks: as Table 1 names its tokenizer, so do we."""
    from tasks.text.tokenizers import load_tokenizer

    try:
        tokenizer = load_tokenizer(name)
    except (TextError, ImportError) as error:
        return {"tokenizer": name, "tokens": None, "tokens_missing_because": str(error)}
    tokens = done = 0
    with path.open(encoding="utf-8") as file:
        while texts := [json.loads(line) for line in islice(file, TEXTS_AT_ONCE)]:
            tokens += sum(len(ids) for ids in tokenizer.encode_batch(texts))
            done += len(texts)
            report("tokens", done, stories)
    return {"tokenizer": name, "tokens": tokens}


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` as a whole once it is on the disk."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes private files
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
