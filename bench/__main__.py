"""``python -m bench``: what there is to run; ``python -m bench doctor``: what this machine can."""

from __future__ import annotations

from ground.errors import OK, UserError, command
from ground.words import wants_help

COMMANDS = {
    "python -m bench doctor": "what this machine can run: devices, data, stores, versions",
    "python -m bench.prepare": "make the data of a task that lie on disk, such as a token stream",
    "python -m tasks.text.recipe": "write a corpus of stories by the recipe of BabiStories",
    "python -m bench.train": "train one model, or measure one memory, and write its record",
    "python -m bench.measure": "the same by another name",
    "python -m bench.evaluate": "run a task's protocol again from saved weights, and compare",
    "python -m bench.recount": "count a record's data, sizes and FLOPs again, and compare",
    "python -m bench.equivalence": "prove that older code gives the same bytes, to keep its runs",
    "python -m bench.generate": "let the model of a saved run go on with a text",
    "python -m bench.prompts": "continuations of the same prompts by several runs, side by side",
    "python -m bench.sweep": "tune, re-run over seeds and compare models on a task",
    "python -m bench.training_speed": "training steps of a task, against a plain loop",
    "python -m bench.speed": "steps and tokens per second of models, interleaved",
    "python -m reproduce": "a published figure or table, with the verdict of each claim",
    "python -m leaderboards.build": "regenerate the leaderboard from records",
    "python -m leaderboards.serve": "open the leaderboard in a browser",
    "python -m leaderboards.export": "write the leaderboard as pages that need no server",
    "python -m leaderboards.add": "check records and propose them for the leaderboard",
    "python -m leaderboards.submit": "write records and a statement as a folder to send",
    "python -m leaderboards.verify": "how far a record or a submission can be believed",
    "python -m leaderboards.readme": "write the results in README and docs from the board",
}


def main(words: list[str]) -> int:
    """List commands, tasks, models and presets, or call the doctor."""
    if words == ["doctor"]:
        from bench.doctor import examine

        return examine()
    if words[:1] == ["doctor"] and not wants_help(words):
        raise UserError(f"doctor takes no settings, got '{words[1]}': try `python -m bench doctor`")
    if words and not wants_help(words):
        raise UserError(f"there is no command '{words[0]}': try `python -m bench` or `... doctor`")
    from settings.groups import card, choices, model_groups

    print("commands (each answers --help):")
    for name, purpose in COMMANDS.items():
        print(f"  {name:30} {purpose}")
    for group in ("tasks", *model_groups(), "preset"):
        print(f"\n{'models/' if group in model_groups()[1:] else ''}{group}:")
        for name in choices(group):
            content = card(group, name)
            label, note = content.get("label", ""), content.get("note", "")
            text = content.get("description") or (f"{label}: {note}" if note else label)
            print(f"  {name:22} {text}")
    return OK


if __name__ == "__main__":
    command(main)
