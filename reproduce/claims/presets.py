"""Which records stand in one figure: those with the settings of their preset, and of one kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from core.errors import UserError
from reproduce.claims.grammar import setting


def refuse_mixtures(
    records: Iterable[RunRecord],
    values: Callable[[RunRecord], Mapping[Any, object]],
    sentence: Callable[[Any, object, object], str],
) -> None:
    """Refuse two records that have different values under one key.

    Args:
        sentence: of the key and both values, what the two records are, and how to go on.

    Raises:
        UserError: there are two such records.
    """
    first: dict[Any, tuple[RunRecord, object]] = {}
    for record in records:
        for key, value in values(record).items():
            first_record, first_value = first.setdefault(key, (record, value))
            if first_value != value:
                difference = sentence(key, first_value, value)
                raise UserError(f"{first_record.run_id} and {record.run_id} {difference}")


def as_preset(records: Sequence[RunRecord], but: Collection[str] = ()) -> list[RunRecord]:
    """The runs with the settings that their preset has for training and model, and the predictors
    without training. A model that has no such run keeps all of its runs, since the user changed
    its settings.

    Args:
        but: settings that a figure varies itself, such as "models.layers"; each of their values is
            looked at by itself, like a model.

    Raises:
        UserError: a setting was changed for some of these runs, not for all.
    """
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        if record.role != "baseline":
            settings = settings_of(record, record.preset)
            varied = (repr(settings.get(key)) for key in but)
            groups.setdefault((record.model, *varied), []).append(record)
    kept_by_id: dict[str, RunRecord] = {}
    for group in groups.values():
        usual = [record for record in group if not _changed(record, record.preset, but)]
        kept_by_id |= {record.run_id: record for record in usual or group}
    selected = [r for r in records if r.role == "baseline" or r.run_id in kept_by_id]
    changed = {key for run in kept_by_id.values() for key in _changed(run, run.preset, but)}
    refuse_mixtures(
        kept_by_id.values(),
        lambda run: {k: v for k, v in settings_of(run, run.preset).items() if k in changed},
        lambda key, first, second: (
            f"have {key}={first} and {key}={second}, and one figure compares runs of the same "
            "settings: keep the records of one setting, or make the others with it too"
        ),
    )
    return selected


def of_published_scale(record: RunRecord) -> bool:
    """Whether a run has the windows, the tokens, the training and the model of the paper, at
    whatever depth."""
    tasks = record.config["tasks"]
    published = preset_settings(record.task, record.model, "paper")["tasks"]
    same_tokens = tasks.get("tokenizer", published["tokenizer"]) in (published["tokenizer"], "gpt2")
    same_windows = tasks.get("length", published["length"]) == published["length"]
    return same_tokens and same_windows and not _changed(record, "paper", but=("models.layers",))


@cache
def preset_settings(task: str, model: str, preset: str) -> dict[str, Any]:
    """The resolved configuration of a preset, as a record has it."""
    return Configuration.of({"tasks": task, "models": model, "preset": preset}).resolved()


@cache
def of_preset(task: str, model: str, preset: str) -> dict[str, Any]:
    """The settings of model and training."""
    return flat(preset_settings(task, model, preset), ("models", "training"))


def flat(config: Mapping[str, Any], sections: Iterable[str]) -> dict[str, Any]:
    """Key -> value of these sections of a configuration, such as "training.lr"."""
    return {f"{part}.{name}": v for part in sections for name, v in config[part].items()}


def settings_of(record: RunRecord, preset: str) -> dict[str, Any]:
    """Those that a run has. Where its record is older than one, that of the preset: a new setting
    leaves what was there before as its default."""
    preset_values = of_preset(record.task, record.model, preset)
    return {key: setting(record, key, usual) for key, usual in preset_values.items()}


def _changed(record: RunRecord, preset: str, but: Collection[str] = ()) -> list[str]:
    """The settings in which a run differs from a preset."""
    usual = of_preset(record.task, record.model, preset)
    settings = settings_of(record, preset)
    return [key for key, value in settings.items() if key not in but and value != usual[key]]
