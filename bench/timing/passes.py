"""What ``bench.speed`` measures. All results are plain numbers, ready for JSON."""

from __future__ import annotations

import inspect
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from bench.config.external import OURS, load_class
from bench.config.files import group_file
from bench.config.groups import DESCRIPTIVE, choices
from bench.config.source_files import source_name
from bench.roofline.training import SavedForBackward
from bench.timing.launches import NO_GRAPHS, captured, count_launches
from bench.timing.settings import Keep, SpeedSettings
from bench.timing.steps import SHORTEST, RandomTokens, clock, machine, measure_engine, synchronize
from bench.timing.tables import SHAPES
from bench.training.building import load_subclass, resolve_device
from bench.training.compiled import compiled, compiler_in_sentences
from bench.training.flops import count_training_flops
from bench.training.memory import (
    check_fits,
    checked_as_it_is_built,
    keep_freed_memory,
    peak_memory,
)
from bench.training.storage import count_parameters
from core.errors import RUN_FAILED, UserError, is_out_of_memory, nearest
from core.progress import Report, now_and_then
from models.generation import evaluation_mode

WHOLE = "whole"
SMALLEST_SHARE = 0.01  # of the time, to be listed in a profile
SIDES = {"cuda": 8192, "cpu": 1024}  # of the product that tells a device's rate
WARM_UP_PRODUCTS, PRODUCTS = 3, 10
MOST_PROGRAMS = 256  # all models of a table are compiled side by side
STEPS = 8  # of one token, of which the median counts
LONGEST_BY_STEPS = 1024  # positions that a model without prefill reads one by one


def measure(settings: SpeedSettings, report: Report, keep: Keep) -> dict[str, Any]:
    """Time every model at every vocabulary.

    Raises:
        UserError: a model that is not there, or that cannot have these shapes; shapes that do not
            fit into the memory.
    """
    try:
        return _measure(settings, report, keep)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            "the memory is too small for these shapes: lower width, layers, length, batch or "
            "vocabulary",
            RUN_FAILED,
        ) from None


def _measure(settings: SpeedSettings, report: Report, keep: Keep) -> dict[str, Any]:
    torch.set_num_threads(settings.threads)
    keep_freed_memory()
    device = resolve_device(settings.device)
    if settings.graphs and device.type != "cuda":
        raise UserError(NO_GRAPHS)
    left_out = {} if settings.models else _without_tokens()
    shaped = [n for n in _shaped() if n not in left_out]
    names = list(dict.fromkeys([settings.reference, *(settings.models or shaped)]))
    rows: list[dict[str, Any]] = []
    measurement: dict[str, Any] = {
        "settings": settings.model_dump(mode="json", exclude={"output"}),
        **machine(device),
        "product_flops_per_second": product_rate(device, settings.precision),
        "models": rows,
        "left_out": left_out,
    }
    for vocabulary in settings.vocabulary:
        for length in settings.length:
            rows += _measure_models(settings, names, vocabulary, length, device, report)
            keep(measurement)
    smallest, dropout = min(settings.vocabulary), settings.dropout[0]
    shape = settings.length[0], smallest, dropout
    if settings.profile:
        profiles = measurement["profile"] = {}
        for name in names:
            model = TimedModel(settings, build_model(settings, name, *shape), *shape[:2], device)
            profiles[name] = _profile(model.training, settings.rounds)
    if settings.engine:

        def build() -> nn.Module:
            return build_model(settings, settings.reference, *shape)

        measurement["engine"] = measure_engine(settings, build, smallest, device, report)
    return measurement


def _shaped() -> list[str]:
    """The models of this repository with a width and layers."""
    return [n for n in choices("models") if {"width", "layers"} <= _arguments(n).keys()]


def _without_tokens() -> dict[str, str]:
    """Models that take no tokens, with what they say to a few."""
    specification, found = RandomTokens(8, 8).specification(), {}
    for name in _shaped():
        defaults = _arguments(name)
        model = load_subclass(defaults.pop("_target_"), "models")
        try:
            model(specification, **defaults)
        except ValueError as error:
            found[name] = str(error)
    return found


def _arguments(name: str) -> dict[str, Any]:
    """What the constructor of a model takes: with the defaults of its YAML file, or None for each
    argument of ``package.Class``, which has its own."""
    if "." in name:
        return dict.fromkeys(inspect.signature(load_class(name)).parameters)
    if name not in choices("models"):
        raise UserError(f"there is no model '{name}': {nearest(name, choices('models'))}")
    content = group_file("models", name)
    return {key: value for key, value in content.items() if key not in DESCRIPTIVE}


def build_model(
    settings: SpeedSettings,
    name: str,
    length: int,
    vocabulary: int,
    dropout: float,
    changes: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A model with the shapes asked for, as far as it has them; equal seeds, equal weights.

    Args:
        changes: its other settings, where they differ from its card.

    Raises:
        UserError: the model refuses the shapes, or is larger than this machine.
    """
    defaults = _arguments(name)
    arguments = {} if "." in name else dict(defaults)
    target = arguments.pop("_target_", name)
    shapes = {key: getattr(settings, key) for key in SHAPES} | {"dropout": dropout}
    arguments |= {key: value for key, value in shapes.items() if key in defaults}
    arguments |= changes or {}
    specification = RandomTokens(length, vocabulary).specification()
    model = partial(load_subclass(target, "models"), specification, **arguments)
    device, ours = resolve_device(settings.device), source_name(target) in OURS
    if ours:
        check_fits(model, name, device)
    torch.manual_seed(settings.seed)
    try:
        with nullcontext() if ours else checked_as_it_is_built(name, device):
            return model()
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be timed at these shapes: {error}") from error


class TimedModel:
    """A model and a batch of random tokens; each method is a pass and gives its seconds, of CPU
    time where one thread does it all."""

    def __init__(
        self,
        settings: SpeedSettings,
        model: nn.Module,
        length: int,
        vocabulary: int,
        device: torch.device,
    ) -> None:
        self.task = RandomTokens(length, vocabulary)
        self.model = model.to(device).train()
        self.batch = self.task.training_batch(settings.seed, 0, settings.batch).to(device)
        self.device = device
        self.clock = clock(device, settings.threads)
        self.cast = partial(autocast, device, settings.precision)
        self.state: Any = None
        loss = self.task.training_loss
        self.loss = compiled(loss, device) if settings.compile else loss
        self.graphs = settings.graphs
        self.replay: Callable[[], object] | None = None  # once it is captured

    def training(self) -> float:
        """Forward and backward; no gradients are left."""
        with compiler_in_sentences(MOST_PROGRAMS):
            if self.graphs and self.replay is None:
                self.replay = captured(self._training_pass, self._forget_gradients)
            seconds = self._timed(self.replay or self._training_pass)
        self._forget_gradients()
        return seconds

    def _training_pass(self) -> None:
        with self.cast():
            self.loss(self.model, self.batch).backward()

    def _forget_gradients(self) -> None:
        self.model.zero_grad(set_to_none=True)

    def launches(self) -> dict[str, Any]:
        """What a pass of training launches that is neither compiled nor captured."""
        loss = self.task.training_loss
        with self.cast():
            counted = count_launches(lambda: loss(self.model, self.batch).backward(), self.device)
        self._forget_gradients()
        return counted

    def kept_for_backward(self) -> float:
        """Bytes of all that the forward pass of training keeps for the backward pass, parameters
        left out: what decides how long a sequence may be."""
        saved = SavedForBackward(self.model)
        with saved, self.cast():
            self.task.training_loss(self.model, self.batch)
        return saved.size

    def forward(self) -> float:
        """Seconds of a pass without gradients."""
        with evaluation_mode(self.model):
            return self._timed(lambda: self.model(self.batch.inputs))

    def prefill(self) -> float | None:
        """The same, with the state from which steps go on; None of a model without."""
        if not hasattr(self.model, "prefill"):
            return None
        prefill = cast(Any, self.model).prefill
        with evaluation_mode(self.model):
            return self._timed(lambda: prefill(self.batch.inputs))

    def step(self) -> float | None:
        """One position of every sequence after all of them; None of a model without, or that reads
        a long prompt by steps alone."""
        long = self.batch.inputs.shape[1] > LONGEST_BY_STEPS and not hasattr(self.model, "prefill")
        if long or not hasattr(self.model, "step"):
            return None
        step, last = cast(Any, self.model).step, self.batch.inputs[:, -1]
        with evaluation_mode(self.model):
            self.state = self.state or self._read()
            seconds = [self._timed(lambda: step(last, *self.state)) for _ in range(STEPS)]
        return statistics.median(seconds)

    def _read(self) -> tuple[Any]:
        """The state after the whole batch, so that it is read once."""
        state, model = None, cast(Any, self.model)
        with self.cast():
            if hasattr(model, "prefill"):
                return (model.prefill(self.batch.inputs)[1],)
            for tokens in self.batch.inputs.unbind(1):
                _, state = model.step(tokens, state)
        return (state,)

    def _timed(self, run: Callable[[], object]) -> float:
        synchronize(self.device)
        begin = self.clock()
        with self.cast():
            run()
        synchronize(self.device)
        return self.clock() - begin


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """A block in which products are made in ``precision``, as the engine trains with it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def product_rate(device: torch.device, precision: str) -> float:
    """FLOP/s of a large square product of random numbers: what a pass may reach at most."""
    side = SIDES.get(device.type, SIDES["cpu"])
    x = torch.randn(side, side, device=device, dtype=getattr(torch, precision))
    seconds = []
    for _ in range(WARM_UP_PRODUCTS + PRODUCTS):
        synchronize(device)
        begin = time.perf_counter()
        x @ x
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return 2.0 * side**3 / statistics.median(seconds[WARM_UP_PRODUCTS:])


def _measure_models(
    settings: SpeedSettings,
    names: Sequence[str],
    vocabulary: int,
    length: int,
    device: torch.device,
    report: Report,
) -> list[dict[str, Any]]:
    models: dict[tuple[str, float], TimedModel] = {}
    for key in itertools.product(names, settings.dropout):
        model = build_model(settings, key[0], length, vocabulary, key[1])
        models[key] = TimedModel(settings, model, length, vocabulary, device)
    alive = now_and_then(partial(report, f"length {length}, vocabulary {vocabulary}", 0, 1))
    rows = []
    for (name, dropout), timed in models.items():  # also warms up
        conditions = {"model": name, "vocabulary": vocabulary, "length": length, "dropout": dropout}
        rows.append({**conditions, **_sizes(timed, settings.passes, device)})
        if settings.count_launches:
            rows[-1]["launches"] = timed.launches()
        alive()
    times = _in_turns(settings, models, report, f"rounds, length {length}, vocabulary {vocabulary}")
    first, reference = settings.dropout[0], settings.reference
    for row in rows:
        name, dropout = row["model"], row["dropout"]
        for kind in settings.passes:
            seconds = times[kind][name, dropout]
            if not seconds:
                continue
            tokens = settings.batch * (1 if kind == "step" else length)
            median = statistics.median(seconds)
            row[kind] = {
                "seconds": seconds,
                "median_seconds": median,
                "tokens_per_second": tokens / median,
                "time_against_reference": _ratio(seconds, times[kind][reference, dropout]),
                "time_against_first_dropout": _ratio(seconds, times[kind][name, first]),
            }
    return rows


def _sizes(timed: TimedModel, passes: Sequence[str], device: torch.device) -> dict[str, Any]:
    """What a model has and keeps, the memory of its first pass, and where training is timed its
    FLOPs and what it keeps between forward and backward."""
    length, flops, kept_bytes = timed.batch.inputs.shape[1], None, None
    if "training" in passes:
        flops = count_training_flops(timed.model, timed.batch, timed.task.training_loss)
        kept_bytes = timed.kept_for_backward()
    with peak_memory(device) as memory:
        getattr(timed, passes[0])()
    has_state = hasattr(timed.model, "state_bytes")
    state = cast(Any, timed.model).state_bytes(length) if has_state else None
    return {
        "parameters": count_parameters(timed.model),
        "flops": flops,
        "peak_memory_bytes": memory.peak,
        "kept_for_backward_bytes": kept_bytes,
        "state_bytes": state,
    }


def _in_turns(
    settings: SpeedSettings,
    models: Mapping[tuple[str, float], TimedModel],
    report: Report,
    activity: str,
) -> dict[str, dict[tuple[str, float], list[float]]]:
    """Pass -> model and dropout -> seconds of each round; none of a pass that a model has not."""
    times: dict[str, dict[tuple[str, float], list[float]]] = {}
    for timed in settings.passes:
        times[timed] = {key: [] for key in models}
    for number in range(settings.rounds):
        alive = now_and_then(partial(report, activity, number, settings.rounds))
        for kind, of_models in times.items():
            for key, model in models.items():
                seconds = getattr(model, kind)()
                if seconds is not None:
                    of_models[key].append(max(seconds, SHORTEST))
                alive()
        report(activity, number + 1, settings.rounds)
    return times


def _ratio(seconds: Sequence[float], others: Sequence[float]) -> float | None:
    """The median of the ratios within a round."""
    if not others:
        return None
    return statistics.median(value / other for value, other in zip(seconds, others, strict=True))


def _profile(run: Callable[[], float], passes: int) -> list[dict[str, Any]]:
    """Regions of the passes with their share of the time, children included; a region is an
    operator, an autograd function or what code names with ``record_function``."""
    run()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with (
        torch.profiler.profile(activities=activities) as profiler,
        torch.profiler.record_function(WHOLE),
    ):
        for _ in range(passes):
            run()
    events = profiler.key_averages()
    whole = next(event.cpu_time_total for event in events if event.key == WHOLE)
    regions = []
    for event in events:
        share = event.cpu_time_total / whole
        is_twice = event.key == WHOLE or event.key.startswith("autograd::engine")
        if share >= SMALLEST_SHARE and not is_twice:
            region = {"region": event.key, "calls": event.count / passes, "share": share}
            regions.append(region | {"own_share": event.self_cpu_time_total / whole})
    return sorted(regions, key=lambda region: -region["share"])
