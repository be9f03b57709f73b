"""What ``bench.prompts`` does: the same prompts, continued by several saved runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bench.settings.config import choices, group_file
from bench.writing.continuations import GenerationSettings, checked, continue_text, read_words
from ground.errors import UserError
from ground.files import ROOT, write_atomically
from ground.progress import Report

if TYPE_CHECKING:
    from bench.runs.saved import SavedRun

OFFERED = "prompts.yaml"  # in the folder of a task


class PromptSettings(BaseModel):
    """The words of the command; the help of ``bench.prompts`` says what they mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: tuple[str, ...]
    prompts: Path | None = None
    beam: int = Field(default=2, ge=1)
    new_tokens: int = Field(default=40, ge=1)
    output: Path | None = None
    store: Path = Path("runs")
    device: Literal["cpu", "cuda"] | None = None
    trust: str | None = None
    locations: dict[str, str] = {}

    @field_validator("runs", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """ "[a,b]" and "a,b" are two names."""
        if not isinstance(value, str):
            return value
        names = [
            name.strip() for name in value.strip().removeprefix("[").removesuffix("]").split(",")
        ]
        if not all(names):
            raise ValueError("give run ids with commas between them, as in runs=[ID,ID]")
        return names


class Prompt(NamedTuple):
    """A prompt, and the name of the list that it comes from ("" if that has none)."""

    text: str
    group: str


@dataclass(frozen=True)
class Comparison:
    """Continuations of prompts by runs.

    Attributes:
        runs: label and id of each run.
        texts: one row for each prompt, in it one text for each run.
    """

    title: str
    prompts: list[Prompt]
    runs: list[tuple[str, str]]
    texts: list[list[str]]

    def markdown(self) -> str:
        """The table, with the list that a prompt comes from where there are several."""
        heads = ["prompt", *(f"{label}<br>`{run}`" for label, run in self.runs)]
        lines = [f"# {self.title}", ""]
        table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        group = ""
        for prompt, texts in zip(self.prompts, self.texts, strict=True):
            if prompt.group != group:
                group = prompt.group
                table.append(f"| **{markdown_cell(group)}** |" + " |" * len(self.runs))
            cells = [markdown_cell(text) for text in (prompt.text, *texts)]
            table.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, *table]) + "\n"

    def write(self, settings: PromptSettings) -> Path:
        """Save the Markdown, by default under a name that the runs and settings give."""
        path = settings.output
        if path is None:
            content = json.dumps([self.title, self.prompts, self.runs])
            digest = hashlib.sha256(content.encode()).hexdigest()[:12]
            path = settings.store / "prompts" / f"{len(self.runs)}-runs-{digest}.md"
        write_atomically(path, self.markdown().encode())
        return path


def read_settings(words: list[str]) -> PromptSettings:
    """The words of the command line.

    Raises:
        UserError: an unknown key, a value that cannot be used, or no runs.
    """
    values, locations = read_words(words, PromptSettings, "for example runs=[ID,ID]")
    if "runs" not in values:
        raise UserError("no runs are given: usage is bench.prompts runs=[ID,ID,...]")
    settings = checked(PromptSettings, {**values, "locations": locations})
    if settings.output is not None and settings.output.suffix != ".md":
        raise UserError(
            f"output={settings.output} is written in Markdown: name a file that ends .md"
        )
    return settings


def compare(settings: PromptSettings, report: Report) -> Comparison:
    """Every run's continuation of every prompt.

    Raises:
        UserError: a run or the file of prompts cannot be used; nothing was generated then.
    """
    from bench.runs.saved import find_record, load_run

    tasks = [find_record(run, settings.store)[0].task for run in settings.runs]
    prompts = read_prompts(settings.prompts or offered_prompts(tasks[0]))
    saved = [
        load_run(run, settings.store, settings.device, settings.locations, report, settings.trust)
        for run in settings.runs
    ]
    for run in saved:
        if getattr(run.task, "tokenizer", None) is None:
            continue_text(run, _request(settings, run.record.run_id, ""))  # says why it cannot
    texts: list[list[str]] = []
    for prompt in prompts:
        report("prompts", len(texts), len(prompts))
        texts.append([_continuation(run, settings, prompt.text) for run in saved])
    report("prompts", len(texts), len(prompts))
    return Comparison(
        f"Continuations of {len(prompts)} prompts (beam search of width {settings.beam}, at most "
        f"{settings.new_tokens} new tokens)",
        prompts,
        [
            (f"{run.record.label}, {run.record.preset}, seed {run.record.seed}", run.record.run_id)
            for run in saved
        ],
        texts,
    )


def print_comparison(comparison: Comparison) -> None:
    """The table on the console."""
    from rich.table import Table
    from rich.text import Text

    from ground.screen import console

    table = Table(title=comparison.title, title_justify="left", show_lines=True)
    table.add_column("prompt", ratio=1)
    for label, run in comparison.runs:
        table.add_column(f"{label}\n{run}", ratio=1, overflow="fold")
    for prompt, texts in zip(comparison.prompts, comparison.texts, strict=True):
        table.add_row(Text(prompt.text), *(Text(text.strip()) for text in texts))
    console().print(table)


def offered_prompts(task: str) -> Path:
    """The prompts in the folder of the task, or of one that measures models trained on the same.

    Raises:
        UserError: there are none.
    """
    known = choices("tasks")
    if task in known:
        trained_on = group_file("tasks", task).get("trained_on") or task
        for name in (task, *known):
            path = ROOT / "tasks" / name / OFFERED
            same = (
                name in (task, trained_on)
                or group_file("tasks", name).get("trained_on") == trained_on
            )
            if same and path.exists():
                return path
    raise UserError(f"no task offers prompts for models of {task}: give a file by prompts=FILE")


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a text or YAML file, in order.

    Raises:
        UserError: there is no such file, or no prompts in it.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(
            f"there is no file {path}: prompts=FILE names a text or YAML file"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8: save the prompts so") from None
    if path.suffix not in (".yaml", ".yml"):
        prompts = [Prompt(line, "") for line in content.splitlines() if line.strip()]
    else:
        try:
            tree = yaml.safe_load(content)
        except yaml.YAMLError as error:
            where = (
                f" in line {error.problem_mark.line + 1}"
                if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark
                else ""
            )
            raise UserError(
                f"{path} cannot be read as YAML{where}: put prompts in quotes"
            ) from None
        groups = tree if isinstance(tree, dict) else {"": tree or []}
        prompts = [
            Prompt(_text(entry, path), str(group))
            for group, entries in groups.items()
            for entry in (entries if isinstance(entries, list) else [entries])
        ]
    if not prompts:
        raise UserError(f"{path} holds no prompts: write one a line")
    return prompts


def _text(entry: Any, path: Path) -> str:
    text = entry.get("prompt") if isinstance(entry, Mapping) else entry
    if not isinstance(text, str) or not text:
        raise UserError(
            f"{path} has {entry!r} in the place of a prompt: give texts, or entries with 'prompt'"
        )
    return text


def _request(settings: PromptSettings, run: str, text: str) -> GenerationSettings:
    return GenerationSettings(
        run=run, prompt=text, beam=settings.beam, new_tokens=settings.new_tokens
    )


def _continuation(saved: SavedRun, settings: PromptSettings, text: str) -> str:
    limit = getattr(saved.model, "context_limit", None)
    request = _request(settings, saved.record.run_id, text)
    if limit is not None:
        used = len(saved.task.tokenizer.encode(text))  # type: ignore[attr-defined]
        room = limit + 1 - used
        if room < 1:
            return f"(no place: the prompt has {used} tokens, the model {limit} positions)"
        request = request.model_copy(update={"new_tokens": min(settings.new_tokens, room)})
    [found, *_] = continue_text(saved, request)
    return found.text if found.text.strip() else "(the text ends)"


def markdown_cell(text: str) -> str:
    """A text in a cell of a Markdown table, as it is: nothing in it is markup."""
    escaped = re.sub(r"([\\|*_`~&<>\[\]])", r"\\\1", text.strip())
    return re.sub(r"\s*\n\s*", "<br>", escaped)
