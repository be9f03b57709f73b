"""Whether a class of somebody else can be a model, asked before its package is hashed: a large one
takes minutes to hash, and a class of it seldom takes what the engine gives."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.config.external import how_models_are_built, refuse_what_is_missing, takes_specification
from bench.config.settings import Configuration
from bench.records.code import is_own
from bench.training.building import build_task, build_to_train, load_subclass
from core.errors import UserError, first_line, is_out_of_memory
from tasks.interface import Task

_passed: set[str] = set()  # settings of models and tasks that were asked here


def refuse_other_constructor(configuration: Configuration) -> None:
    """Refuse a class that is no module, and one whose constructor takes something else than a
    specification. A first argument of that name is believed; of any other the class is built once.

    Raises:
        UserError: what it takes, and what a model takes.
    """
    target = configuration.models["_target_"]
    # A predictor without training is named by the class of its task.
    if is_own(target) or target == configuration.tasks["_target_"]:
        return
    loaded = load_subclass(target, "models")
    if configuration.takes is None:  # a measurement gives sizes of its own
        settings = {k: v for k, v in configuration.models.items() if k != "_target_"}
        refuse_what_is_missing(settings, target, sizes=1)
    if takes_specification(loaded) or configuration.takes is not None:
        return
    key = json.dumps([configuration.models, configuration.tasks], sort_keys=True)
    if key in _passed:
        return
    _build(configuration, loaded, build_task(configuration))
    _passed.add(key)


def _build(configuration: Configuration, loaded: type, task: Task) -> None:
    """Build it, and say what stops that; a setting that it refuses is one of a trial, which is
    judged when that is made."""
    name = f"models ({configuration.models['_target_']})"
    how = how_models_are_built(loaded)
    try:
        build_to_train(configuration, task, configuration.seed)
    except UserError as error:
        if not any(isinstance(cause, TypeError) for cause in _causes(error)):
            return
        if how in str(error):
            raise
        stops_with = str(error).removeprefix(f"{name}: ")
    except Exception as error:  # what is meant for other arguments may stop in any way
        if is_out_of_memory(error):
            return
        stops_with = f"{type(error).__name__} ({first_line(error)})"
    else:
        return
    raise UserError(f"{name} cannot be built: {stops_with}; {how}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
