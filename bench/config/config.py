"""From command-line words to a checked configuration."""

from __future__ import annotations

from collections.abc import Sequence

from bench.config.command_line import read
from bench.config.files import shared_file
from bench.config.settings import Configuration
from bench.config.tree import constructor_arguments


def compose(words: Sequence[str]) -> Configuration:
    """The configuration that command-line words such as ``tasks=regbench seed=1`` ask for.

    Raises:
        UserError: a word that cannot be parsed, an unknown task, model, preset or key, or a value
            of the wrong kind.
    """
    return Configuration.of(read(words))


def training_configuration(configuration: Configuration) -> Configuration:
    """The configuration whose training a task evaluates: its own, or that of another task.

    A task with ``trained_on: NAME`` in its YAML file builds on the file of NAME (``defaults:
    [NAME, _self_]``) and has all its arguments, so that the training is the same run.
    """
    name = configuration.trained_on
    if name is None:
        return configuration
    trained_task = shared_file("tasks", name)
    arguments = {k: configuration.tasks[k] for k in constructor_arguments(trained_task)}
    return configuration.model_copy(
        update={
            "task": name,
            "trained_on": None,
            "needs": tuple(trained_task.get("needs", ())),
            "tasks": {**arguments, "_target_": trained_task["_target_"]},
            "locations": tuple(trained_task.get("locations", ())),
        }
    )
