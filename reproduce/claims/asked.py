"""What a rule asks of records, for those who write one from Python: names that are none, and runs
that it cannot tell apart.

A rule is a function with what it judges in its closure, so that the runs and numbers that it is
about are found there. Those that a rule finds in the records themselves, by a function, are not.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from types import FunctionType

from bench.config.groups import choices, model_groups
from bench.records.code import ClassOfFile
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord
from core.amounts import amount
from core.arguments import described, refuse_unknown
from core.errors import UserError, nearest
from reproduce.claims.grammar import Measured, Rule, Runs

Records = Sequence[RunRecord]
BUDGET = ("training.steps", "training.epochs")
FIRST = ("task", "preset", "tasks.", "training.steps")  # settings that a reader looks for first


def refuse_wrong_names(rule: Rule, records: Records) -> None:
    """Refuse a rule about a task, model, setting, predictor or metric that there is not. A known
    model or task without runs is none of these: its claim is open.

    Raises:
        UserError: which name, and which is near.
    """
    for part in _parts(rule.judge):
        runs = part if isinstance(part, Runs) else part.runs
        if not isinstance(runs, Runs):
            raise UserError(
                "a number is one of runs, accuracy.of(Runs('GPT2', model='gpt2')), and not of "
                f"{described(runs)}"
            )
        _refuse_runs(runs, records)
        if isinstance(part, Runs):
            continue
        if isinstance(part.number.read, str):
            _refuse_metric(part, records)
        elif not callable(part.number.read):
            raise UserError(
                f"a Number reads the name of a metric, such as 'accuracy', or is a function of a "
                f"record, and not {described(part.number.read)}"
            )


def refuse_different(rule: Rule, records: Records) -> None:
    """Refuse a rule whose runs are of different tasks or presets, unless each of its runs says so
    itself: by its task, or by a function that chooses its records.

    Sides of one task are refused, too, where they differ in a setting of the task or in their
    length of training that not each of them names: such a difference is not one of the models.

    Raises:
        UserError: which tasks, presets or settings, and how to name one.
    """
    sides = _runs_of(rule)
    for name in ("task", "preset"):
        on_purpose = "choose=…" if name == "preset" else "task=…"
        way_on = (
            f"give records of one, read_records({name}=…), or Runs(…, {on_purpose}) on each side "
            f"to compare {name}s"
        )
        all_values: dict[str, None] = {}  # in the order of the sides
        is_unsaid = False
        for runs in sides:
            of_side = dict.fromkeys(getattr(record, name) for record in records if runs.has(record))
            all_values |= of_side
            if runs.choose is not None or (name == "task" and runs.task):
                continue
            is_unsaid = is_unsaid or bool(of_side)
            if len(of_side) > 1:
                values = ", ".join(_shortened(sorted(of_side)))
                raise UserError(
                    f"runs of {runs.label} are of different {name}s ({values}): {way_on}"
                )
        if is_unsaid and len(all_values) > 1:
            which = "the two sides" if len(sides) == 2 else "the runs of the rule"
            values = ", ".join(_shortened([*all_values]))
            raise UserError(f"{which} are of different {name}s ({values}): {way_on}")
    if difference := _unequal(sides, records):
        raise UserError(difference)


def remarks(rule: Rule, records: Records) -> list[str]:
    """What a reader of the verdict must know: settings with values that no run has, runs of one
    seed that differ, of which only the latest counts."""
    sides = _runs_of(rule)
    sentences: list[str] = []
    for runs in sides:
        sentences += filter(None, [_without_value(runs, records), _mixed(runs, records)])
    return sentences


def _runs_of(rule: Rule) -> list[Runs]:
    """All runs of a rule, each once, in its order."""
    sides: list[Runs] = []
    for part in _parts(rule.judge):
        if isinstance(part, Runs) and part not in sides:
            sides.append(part)
    return sides


def _parts(value: object, seen: set[int] | None = None) -> Iterator[Runs | Measured]:
    """Runs, and numbers of runs, within the closure of a function."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Runs | Measured):
        yield value
    inner: list[object] = []
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # of a function that names itself and is not made yet
                inner.append(cell.cell_contents)
    elif isinstance(value, partial):
        inner = [value.func, *value.args]
    elif isinstance(value, list | tuple):
        inner = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    for part in inner:
        yield from _parts(part, seen)


def _refuse_runs(runs: Runs, records: Records) -> None:
    names = [runs.model] if isinstance(runs.model, str) else runs.model
    if not isinstance(names, list | tuple):
        raise UserError(f"Runs({runs.label!r}): model is a name, and not {described(names)}")
    if not isinstance(runs.settings, Mapping):
        raise UserError(
            f"Runs({runs.label!r}): settings is a dictionary such as "
            f'{{"training.steps": 7200}}, and not {described(runs.settings)}'
        )
    if runs.choose is not None and not callable(runs.choose):
        raise UserError(
            f"Runs({runs.label!r}): choose is a function of a record, and not "
            f"{described(runs.choose)}"
        )
    known_models = {name for group in model_groups() for name in choices(group)}
    known_tasks = {*choices("tasks")}
    if runs.task in known_models and runs.task not in known_tasks:
        raise UserError(
            f"there is no task '{runs.task}': that is a model, Runs({runs.label!r}, "
            f"model='{runs.task}')"
        )
    if runs.task:
        refuse_unknown("task", runs.task, known_tasks, {record.task for record in records})
    models = {record.model for record in records if record.role != "baseline"}
    for name in filter(None, names):
        refuse_unknown("model", name, known_models, models)
    of_predictors = {record.label for record in records if record.role == "baseline"}
    if runs.baseline and of_predictors and runs.baseline not in of_predictors:
        hint = nearest(runs.baseline, of_predictors)
        raise UserError(f"these records have no predictor '{runs.baseline}': {hint}")
    keys = {key for record in _of_model(runs, records) for key in _settings(record)}
    for key in runs.settings:
        if keys and key not in keys:
            hint = nearest(str(key), keys)
            if key == "preset":
                hint = "give records of one, read_records(preset=…)"
            raise UserError(f"runs of {runs.label} have no setting '{key}': {hint}")


def _refuse_metric(measured: Measured, records: Records) -> None:
    metrics: set[str] = set()
    for record in measured.runs.finished(records):
        metrics |= record.metrics.get("test", {}).keys()
    name = measured.number.read
    if metrics and name not in metrics:
        hint = nearest(str(name), metrics)
        raise UserError(f"runs of {measured.runs.label} have no metric '{name}': {hint}")


def _without_value(runs: Runs, records: Records) -> str:
    """Which setting of some runs has a value that none has; "" where there are such runs."""
    of_model = _of_model(runs, records)
    if not of_model:
        return _of_another_file(runs, records)
    if any(map(runs.has, of_model)):
        return ""
    for key, value in runs.settings.items():
        values = [_settings(record).get(key) for record in of_model]
        if value not in values:
            listed = _listed({repr(other) for other in values})
            return f"of {runs.label} there are runs with {key} = {listed}, and none with {value}"
    return f"of {runs.label} no run has all settings that are asked for"


def _of_another_file(runs: Runs, records: Records) -> str:
    """That classes of these names are there, but not of the files that were named as they are now;
    "" where no class is."""
    models = [runs.model] if isinstance(runs.model, str) else list(runs.model)
    by_name = dataclasses.replace(runs, task=str(runs.task), model=tuple(map(str, models)))
    others = _of_model(by_name, records)
    if not others:
        return ""
    named = next(n for n in [*models, runs.task] if isinstance(n, ClassOfFile))
    return (
        f"{amount(len(others), 'run')} of {named} {'is' if len(others) == 1 else 'are'} of another "
        f"file than {named.target} as it is now: its name alone, {str(named)!r}, takes them all"
    )


def _mixed(runs: Runs, records: Records) -> str:
    """In what runs of one seed differ that the rule cannot tell apart; "" where none do."""
    by_seed: dict[tuple[int, int], list[RunRecord]] = defaultdict(list)
    for record in filter(runs.has, records):
        by_seed[data_seed(record), record.seed].append(record)
    values: dict[str, set[str]] = defaultdict(set)
    for same_seed in by_seed.values():
        settings = [_settings(r, task=r.task, preset=r.preset) for r in same_seed]
        for key in {key for flat in settings for key in flat}:
            of_key = {repr(flat.get(key)) for flat in settings}
            if len(of_key) > 1:
                values[key] |= of_key
    if not values:
        return ""
    ordered = sorted(values, key=lambda key: (not key.startswith(FIRST), key))
    clauses = _shortened([f"{key} ({_listed(values[key])})" for key in ordered])
    return (
        f"runs of {runs.label} with one seed differ in {', '.join(clauses)}, and of each seed "
        "the latest counts: name the values that you mean in Runs(settings=…), or give fewer "
        "records"
    )


def _unequal(sides: Sequence[Runs], records: Records) -> str:
    """In which settings of the task, or in how long a training, sides differ though not each one
    names them; "" where in none, or where they are of different tasks on purpose."""
    values_by_side: list[dict[str, set[str]]] = []
    tasks = set()
    for runs in sides:
        values: dict[str, set[str]] = defaultdict(set)
        for record in filter(runs.has, records):
            tasks.add(record.task)
            for key, value in _settings(record).items():
                is_budget = key in BUDGET and record.role != "baseline"
                if key.startswith("tasks.") or is_budget:
                    values[key].add(repr(value))
        values_by_side.append(values)
    if len(tasks) != 1 or any(runs.choose is not None for runs in sides):
        return ""
    clauses = []
    for key in sorted({key for values in values_by_side for key in values}):
        of_sides = [values[key] for values in values_by_side if key in values]
        is_named = all(key in runs.settings for runs in sides)
        if not is_named and any(of_side != of_sides[0] for of_side in of_sides):
            clauses.append(f"{key} ({' and '.join(map(_listed, of_sides))})")
    if not clauses:
        return ""
    return (
        f"the sides differ in {', '.join(_shortened(clauses))}: name the values that you mean in "
        "Runs(settings=…) of each"
    )


def _of_model(runs: Runs, records: Records) -> list[RunRecord]:
    """The records that some runs would be of, whatever their settings."""
    with_any_settings = dataclasses.replace(runs, settings={})
    return [record for record in records if with_any_settings.has(record)]


def _settings(record: RunRecord, **others: object) -> dict[str, object]:
    """The settings of a record by the keys that a rule has for them, and others."""
    flat = others
    for section, values in record.config.items():
        flat |= {f"{section}.{key}": value for key, value in values.items()}
    return flat


def _listed(values: Set[str]) -> str:
    ordered = sorted(values, key=lambda text: (len(text), text))
    return ", ".join(_shortened([text.strip("'") for text in ordered]))


def _shortened(texts: list[str], at_most: int = 3) -> list[str]:
    left_out = len(texts) - at_most
    return [*texts[:at_most], f"{left_out} more"] if left_out > 0 else texts
