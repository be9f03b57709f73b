"""Examining a finished run by its saved weights, without training it."""

from __future__ import annotations

from bench.config.config import training_configuration
from bench.records.schema import Examination
from bench.runs.examined import ExaminedWeights, examine_fresh
from bench.runs.saved import SavedRun
from bench.training.building import build_model, build_task


def examine_weights(saved: SavedRun) -> ExaminedWeights:
    """The model of a finished run, once its weights have passed.

    Raises:
        UnfitModel: what it fails.
    """
    trained_by = build_task(training_configuration(saved.configuration))
    trained_on = saved.record.cost.training_tokens
    return ExaminedWeights(saved.model, saved.task, trained_by, saved.configuration, trained_on)


def examine_saved(saved: SavedRun) -> Examination:
    """Examine a finished run: its model with fresh weights, and with those that were
    scored.

    Raises:
        UnfitModel: what it fails.
    """
    configuration, record = saved.configuration, saved.record
    weights = examine_weights(saved)
    trained_by = build_task(training_configuration(configuration))
    size = configuration.training.batch_size
    batch = trained_by.training_batch(record.seed, 0, size).to(saved.device)
    fresh = build_model(configuration, saved.task, record.seed).to(saved.device)
    return weights.record([*examine_fresh(fresh, saved.task, batch, configuration).passed])
