"""``python -m bench``: what there is to run; ``python -m bench doctor``: what this machine can."""

from __future__ import annotations

import shutil
import textwrap

from bench.config.groups import card, choices, model_groups
from core.errors import OK, UserError, command, nearest
from core.words import by_name, wants_help

COMMANDS = {
    "python -m bench doctor": "what this machine can run: devices, data, stores, versions",
    "python -m bench.prepare": "make the data of a task that lie on disk, such as a token stream",
    "python -m tasks.text.recipe": "write a corpus of stories by the recipe of BabiStories",
    "python -m bench.train": "train one model, or measure one memory, and write its record",
    "python -m bench.measure": "the same by another name",
    "python -m bench.evaluate": "run a task's protocol again from saved weights, and compare",
    "python -m bench.examine": "whether a saved run's model is causal, by its weights",
    "python -m bench.recount": "count a record's data, sizes and FLOPs again, and compare",
    "python -m bench.equivalence": "prove that older code gives the same bytes, to keep its runs",
    "python -m bench.generate": "let the model of a saved run go on with a text",
    "python -m bench.prompts": "continuations of the same prompts by several runs, side by side",
    "python -m bench.sweep": "tune, re-run over seeds and compare models on a task",
    "python -m bench.training_speed": "training steps of a task, against a plain loop",
    "python -m bench.speed": "steps and tokens per second of models, interleaved",
    "python -m bench.waits": "what commands cost that train nothing, beside an older checkout",
    "python -m bench.gpu": "what a GPU is wanted for, in so many minutes, without a network",
    "python -m reproduce": "a published figure or table, with the verdict of each claim",
    "python -m leaderboards.build": "regenerate the leaderboard from records",
    "python -m leaderboards.serve": "open the leaderboard in a browser",
    "python -m leaderboards.export": "write the leaderboard as pages that need no server",
    "python -m leaderboards.add": "check records and propose them for the leaderboard",
    "python -m leaderboards.pack": "move committed records into few compressed files",
    "python -m leaderboards.submit": "write records and a statement as a folder to send",
    "python -m leaderboards.verify": "how far a record or a submission can be believed",
    "python -m leaderboards.readme": "write the results in README and docs from the board",
    "python -m leaderboards.history": "whether a range of commits changed code alone",
}


def main(arguments: list[str]) -> int:
    """List commands, tasks, models and presets; tell all of one of them; or call the doctor."""
    if arguments[:1] == ["doctor"]:
        return int(by_name("bench.doctor:main")(arguments[1:]))
    if arguments and not wants_help(arguments):
        return _tell(arguments)
    print("commands (each answers --help):")
    for name, purpose in COMMANDS.items():
        print(f"  {name:30} {purpose}")
    print("\npython -m bench NAME tells all of one of these:")
    for title, group in _groups():
        print(f"\n{title}:")
        for name in choices(group):
            content = card(group, name)
            first = " ".join(str(content.get("note", "")).split()).partition(". ")[0].rstrip(".")
            label = content.get("label") or content.get("description", "")
            _print(f"  {name:22} ", f"{label}: {first}" if first else label)
    return OK


def _tell(names: list[str]) -> int:
    """The label, note and source of what has a name."""
    cards, all_names = [], []
    for title, group in _groups():
        all_names += choices(group)
        if len(names) == 1 and names[0] in choices(group):
            cards.append((title, card(group, names[0])))
    if not cards:
        expected = "a command, a task, a model or a preset"
        raise UserError(f"'{' '.join(names)}' is not {expected}; {nearest(names[0], all_names)}")
    for title, content in cards:
        _print("", f"{title}: {names[0]}, {content.get('label') or content.get('description')}")
        for key in ("note", "source"):
            if key in content:
                _print(f"  {key}: ", " ".join(str(content[key]).split()))
    return OK


def _groups() -> list[tuple[str, str]]:
    """Title and name of each group of settings."""
    models, *others = model_groups()
    rest = [(f"models/{group}", group) for group in others]
    return [("tasks", "tasks"), (models, models), *rest, ("preset", "preset")]


def _print(beginning: str, text: str) -> None:
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    indent = " " * min(len(beginning), 25)
    print(textwrap.fill(text, width, initial_indent=beginning, subsequent_indent=indent))


if __name__ == "__main__":
    command(main)
