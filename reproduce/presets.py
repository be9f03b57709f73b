"""Which runs have the settings of their preset, or those of the paper."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from bench.settings.config import compose
from ground.errors import UserError


def as_preset(records: Sequence[RunRecord], but: Collection[str] = ()) -> list[RunRecord]:
    """The runs with the settings that their preset has for training and model, and the predictors
    without training. Of a model that has no such run all are taken, since its settings were then
    changed by the user.

    Args:
        but: settings that a figure varies itself, such as "models.layers"; each of their values is
            looked at by itself, like a model.

    Raises:
        UserError: a setting was changed for some of these runs, not for all.
    """
    trained = [record for record in records if record.role != "baseline"]
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in trained:
        varied = (repr(setting(record, record.preset, key)) for key in but)
        groups.setdefault((record.model, *varied), []).append(record)
    kept = {
        record.run_id
        for group in groups.values()
        for record in [one for one in group if not _changed(one, one.preset, but)] or group
    }
    found = [r for r in records if r.role == "baseline" or r.run_id in kept]
    _refuse_unequal_settings([r for r in found if r.role != "baseline"], but)
    return found


def of_published_scale(record: RunRecord) -> bool:
    """Whether a run has the windows, the tokens, the training and the model of the paper, at
    whatever depth."""
    tasks = record.config["tasks"]
    own = preset_settings(record.task, record.model, "paper")["tasks"]
    same_tokens = tasks.get("tokenizer", own["tokenizer"]) in (own["tokenizer"], "gpt2")
    same_windows = tasks.get("length", own["length"]) == own["length"]
    return same_tokens and same_windows and not _changed(record, "paper", but=("models.layers",))


@cache
def preset_settings(task: str, model: str, preset: str, *words: str) -> dict[str, Any]:
    """The resolved configuration of a preset, as a record has it; ``words`` change it."""
    choice = [f"tasks={task}", f"models={model}", f"preset={preset}"]
    return compose([*choice, *words]).resolved()


def _refuse_unequal_settings(runs: Sequence[RunRecord], but: Collection[str]) -> None:
    for key in dict.fromkeys(key for run in runs for key in _changed(run, run.preset, but)):
        first: tuple[RunRecord, Any] | None = None
        for run in runs:
            if not _has(run, key):
                continue  # a setting that only the other models have
            value = setting(run, run.preset, key)
            one, other = first = first or (run, value)
            if other != value:
                raise UserError(
                    f"{one.run_id} has {key}={other} and {run.run_id} has {value}, and one figure "
                    "compares runs of the same settings: keep the records of one setting, or make "
                    "the others with it too"
                )


def _changed(record: RunRecord, preset: str, but: Collection[str] = ()) -> list[str]:
    """The settings of training and model in which a run differs from a preset."""
    own = preset_settings(record.task, record.model, preset)
    keys = [f"{section}.{name}" for section in ("models", "training") for name in own[section]]
    return [key for key in keys if key not in but and setting(record, preset, key) != _at(own, key)]


def setting(record: RunRecord, preset: str, key: str) -> Any:
    """The value that a run has. Where its record is older than the setting, that of the preset: a
    new setting leaves what was there before as its default."""
    own = preset_settings(record.task, record.model, preset)
    return _at(record.config, key, _at(own, key))


def _has(record: RunRecord, key: str) -> bool:
    own = preset_settings(record.task, record.model, record.preset)
    section, _, name = key.partition(".")
    return name in own[section]


def _at(config: Mapping[str, Any], key: str, default: Any = None) -> Any:
    section, _, name = key.partition(".")
    return config[section].get(name, default)
