"""What ``bench.prompts`` does: the same prompts, continued by several saved runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from bench.config.files import group_file
from bench.config.groups import choices
from bench.runs.saved import SavedRun, find_record, load_run
from bench.writing.continuations import continue_text
from bench.writing.requests import GenerationSettings, PromptSettings
from core.errors import OK, UserError
from core.escaping import markdown, markdown_code, markdown_lines
from core.files import ROOT, write_atomically
from core.places import readable
from core.progress import Report, progress
from core.reading import Kind
from core.screen import console

OFFERED = "prompts.yaml"  # in the folder of a task
HOW = "prompts=FILE names a text file with a prompt in each line, or a YAML file of quoted prompts"
PROMPTS: Kind[Any] = Kind("file of prompts", Any, HOW)


class ListedPrompt(NamedTuple):
    """A prompt, and the name of the list that it comes from ("" if that has none)."""

    text: str
    group: str


@dataclass(frozen=True)
class SideBySide:
    """Continuations of prompts by runs.

    Attributes:
        runs: label and id of each run.
        texts: one row for each prompt, in it one text for each run.
    """

    title: str
    prompts: list[ListedPrompt]
    runs: list[tuple[str, str]]
    texts: list[list[str]]

    def markdown(self) -> str:
        """The table, with the list that a prompt comes from where there are several."""
        heads = ["prompt"]
        heads += [f"{markdown(label)}<br>{markdown_code(run)}" for label, run in self.runs]
        rule, group = "|---" * len(heads) + "|", ""
        lines = [f"# {self.title}", "", f"| {' | '.join(heads)} |", rule]
        for prompt, texts in zip(self.prompts, self.texts, strict=True):
            if prompt.group != group:
                group = prompt.group
                lines.append(f"| **{markdown(group)}** |" + " |" * len(self.runs))
            cells = [markdown_lines(text) for text in (prompt.text, *texts)]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def write(self, settings: PromptSettings) -> Path:
        """Save the Markdown, by default under a name that the runs and settings give."""
        path = settings.output
        if path is None:
            content = json.dumps([self.title, self.prompts, self.runs])
            digest = hashlib.sha256(content.encode()).hexdigest()[:12]
            path = settings.store / "prompts" / f"{len(self.runs)}-runs-{digest}.md"
        write_atomically(path, self.markdown().encode())
        return path


def continue_side_by_side(settings: PromptSettings) -> int:
    """Print the table of continuations, and save it; the exit code."""
    with progress() as report:
        comparison = compare(settings, report)
    path = comparison.write(settings)
    print_comparison(comparison)
    print(f"written to {readable(path)}")
    return OK


def compare(settings: PromptSettings, report: Report) -> SideBySide:
    """Every run's continuation of every prompt.

    Raises:
        UserError: a run or the file of prompts cannot be used; nothing was generated then.
    """
    tasks = [find_record(run, settings.store)[0].task for run in settings.runs]
    prompts = read_prompts(settings.prompts or offered_prompts(tasks[0]))
    place = (settings.device, settings.locations, report, settings.trust)
    saved = [load_run(run, settings.store, *place) for run in settings.runs]
    for run in saved:
        if getattr(run.task, "tokenizer", None) is None:
            _continuation(run, settings, "")  # says why it cannot
    texts: list[list[str]] = []
    for prompt in prompts:
        report("prompts", len(texts), len(prompts))
        texts.append([_continuation(run, settings, prompt.text) for run in saved])
    report("prompts", len(texts), len(prompts))
    title = (
        f"Continuations of {len(prompts)} prompts (beam search of width {settings.beam}, at most "
        f"{settings.new_tokens} new tokens)"
    )
    records = [run.record for run in saved]
    runs = [(f"{r.label}, {r.preset}, seed {r.seed}", r.run_id) for r in records]
    return SideBySide(title, prompts, runs, texts)


def _continuation(saved: SavedRun, settings: PromptSettings, text: str) -> str:
    limit, room = getattr(saved.model, "context_limit", None), settings.new_tokens
    tokenizer = getattr(saved.task, "tokenizer", None)
    if limit is not None and tokenizer is not None:
        used = len(tokenizer.encode(text))
        room = min(room, limit + 1 - used)
        if room < 1:
            return f"(no place: the prompt has {used} tokens, the model {limit} positions)"
    run = saved.record.run_id
    request = GenerationSettings(run=run, prompt=text, beam=settings.beam, new_tokens=room)
    [continuation, *_] = continue_text(saved, request)
    return continuation.text if continuation.text.strip() else "(the text ends)"


def print_comparison(comparison: SideBySide) -> None:
    """The table on the console."""
    table = Table(title=comparison.title, title_justify="left", show_lines=True)
    table.add_column("prompt", ratio=1)
    for label, run in comparison.runs:
        table.add_column(f"{label}\n{run}", ratio=1, overflow="fold")
    for prompt, texts in zip(comparison.prompts, comparison.texts, strict=True):
        table.add_row(prompt.text, *(text.strip() for text in texts))
    console().print(table)


def offered_prompts(task: str) -> Path:
    """The prompts in the folder of the task, or of one that measures models trained on the same.

    Raises:
        UserError: there are none.
    """
    tasks = sorted(choices("tasks"), key=lambda name: name != task)  # itself first
    trained_on = {name: group_file("tasks", name).get("trained_on", name) for name in tasks}
    for name in tasks:
        path = ROOT / "tasks" / name / OFFERED
        if trained_on[name] == trained_on.get(task) and path.exists():
            return path
    raise UserError(f"no task offers prompts for models of {task}: give a file by prompts=FILE")


def read_prompts(path: Path) -> list[ListedPrompt]:
    """The prompts of a text or YAML file, in order.

    Raises:
        UserError: the file cannot be trusted, or holds no prompts.
    """
    if path.suffix in (".yaml", ".yml"):
        tree = PROMPTS.read_yaml(path)
    else:
        try:
            lines = PROMPTS.bytes_of(path).decode().splitlines()
        except UnicodeDecodeError:
            raise PROMPTS.refused(path, "is not text in UTF-8") from None
        tree = [line for line in lines if line.strip()]
    groups = tree if isinstance(tree, dict) else {"": tree or []}
    prompts = []
    for group, entries in groups.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            prompts.append(ListedPrompt(_text(entry, path), str(group)))
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
