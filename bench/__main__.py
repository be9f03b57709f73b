"""``python -m bench``: what there is to run; ``python -m bench doctor``: what this machine can."""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from bench.config.command_line import shown
from bench.config.files import shared_file
from bench.config.groups import DESCRIPTIVE, card, choices, model_groups
from core.errors import OK, UserError, command, nearest
from core.files import ROOT
from core.words import by_name, wants_help

ROLE = re.compile(r":\w+:`~?([^`]+)`")  # of Sphinx, such as :class:`models.gpt2.GPT2`
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
            label = content.get("label") or content.get("description", "")
            first = _what_it_is(group, name)
            _print(f"  {name:22} ", f"{label}: {first}" if first else label)
    return OK


def _what_it_is(group: str, name: str) -> str:
    """What the class of a task or model is, as the first sentence of its docstring says: of its
    module's where the class lies elsewhere. Nothing is imported."""
    target = shared_file(group, name).get("_target_") if group != "preset" else None
    if target is None:
        return ""
    module, _, class_name = target.rpartition(".")
    texts_of_module = _docstrings(module)
    text = texts_of_module.get(class_name) or texts_of_module.get("", "")
    plain = ROLE.sub(lambda match: match[1].rpartition(".")[2], text).replace("``", "")
    sentence = " ".join(plain.split()).partition(". ")[0].rstrip(".")
    return sentence.removeprefix(f"{card(group, name).get('label')}: ")


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Class -> its docstring, of a module of this project; that of the module under ""."""
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_bytes())
    docstrings = {"": ast.get_docstring(tree) or ""}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            docstrings[node.name] = ast.get_docstring(node) or ""
    return docstrings


def _tell(names: list[str]) -> int:
    """All that the files say of what has a name: what it is, its source, settings and presets."""
    for written in COMMANDS:
        module = written.split()[2]
        if names[0] in (module, module.rpartition(".")[2]) and module != "bench":
            rest = " ".join(["", *names[1:]])
            raise UserError(f"'{names[0]}' is a command of its own: write {written}{rest}")
    cards, all_names = [], []
    for title, group in _groups():
        all_names += choices(group)
        if len(names) == 1 and names[0] in choices(group):
            cards.append((title, group, card(group, names[0])))
    if not cards:
        expected = "a command, a task, a model or a preset"
        raise UserError(f"'{' '.join(names)}' is not {expected}; {nearest(names[0], all_names)}")
    for title, group, content in cards:
        _print("", f"{title}: {names[0]}, {content.get('label') or content.get('description')}")
        if first := _what_it_is(group, names[0]):
            _print("  what it is: ", first)
        for key in ("note", "source"):
            if key in content:
                _print(f"  {key}: ", " ".join(str(content[key]).split()))
        for key, text in _in_full(group, shared_file(group, names[0])):
            _print(f"  {key}: ", text)
    return OK


def _in_full(group: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings with their defaults, what each preset sets, and what a sweep tries, in words of a
    command line."""
    section = "tasks" if group == "tasks" else "models"
    if group == "preset":
        if "sweep" in content:
            yield "sweep", _words("", content["sweep"])
        return
    settings = {}
    for key, value in content.items():
        if key not in DESCRIPTIVE and key != "_target_":
            settings[key] = value
    yield "settings", _words(f"{section}.", settings) or "none"
    for preset, block in content.get("presets", {}).items():
        parts = [_words(f"{inner}.", values) for inner, values in block.items()]
        yield f"preset={preset}", " ".join(parts)
    if sweep := content.get("sweep"):
        yield "sweep", _words("", sweep)


def _words(beginning: str, settings: Mapping[str, Any]) -> str:
    return " ".join(shown(f"{beginning}{key}", value) for key, value in settings.items())


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
