"""The parts of a call, in their order: each a value with its limit and its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.plans import LEAST, planned_models, scaled
from bench.gpu.request import GpuRequest
from bench.gpu.results import read_launches, read_speed, read_stack, read_whole
from core.errors import UserError, nearest
from core.words import word

LARGE = {"layers": 12, "length": 512, "batch": 32, "vocabulary": 50304}  # with 12 heads of 64
HEADS, HEAD_WIDTH = 12, 64
STACKED = ("gpt2", "memory_mosaic", "lstm")
NO_TEST_HERE = "its tests need a CUDA GPU"
NO_GRAPH_HERE = "CUDA graphs need a CUDA GPU"
ALL = 1.0  # of the time


@dataclass(frozen=True)
class GpuPart:
    """One part of a call.

    Attributes:
        share: of the minutes of the call that it takes at most.
        module: whose command it is, beside ``output=FILE``.
        read: what the numbers in that file are.
        not_on_cpu: why a rehearsal skips it; None where it does not.
        sweeps: whether it is a part that ends by itself when its ``until=`` has come, and says
            what is left.
    """

    name: str
    title: str
    share: float
    module: str
    words: Sequence[str]
    read: Callable[[Path], Mapping[str, Any]]
    not_on_cpu: str | None = None
    sweeps: bool = False


def parts_of(request: GpuRequest) -> list[GpuPart]:
    """The parts that a request asks for, in their order.

    Raises:
        UserError: a part or a model that does not exist.
    """
    parts = [*_checks(), *_speeds(request), *_stacks(request), *_sweeps(request)]
    names = {"part": [part.name for part in parts], "planned model": planned_models()}
    for kind, requested in (("part", request.parts), ("planned model", request.models)):
        for name in requested:
            if name not in names[kind]:
                raise UserError(f"there is no {kind} '{name}': {nearest(name, names[kind])}")
    return [part for part in parts if not request.parts or part.name in request.parts]


def _checks() -> list[GpuPart]:
    models = "tests/models"
    conformance = [f"{models}/test_conformance.py", f"{models}/memories/test_conformance.py"]
    linear = [f"{models}/linear/test_linear_kernels.py"]
    leaky = [f"{models}/layers/test_leaky_average.py"]

    def part(
        name: str, title: str, share: float, tests: list[str], not_on_cpu: str | None
    ) -> GpuPart:
        return GpuPart(name, title, share, "bench.gpu.checks", tests, read_whole, not_on_cpu)

    return [
        part("leaky_average", "The leaky average and its kernel", 0.05, leaky, None),
        part("linear_kernels", "Kernels of linear recurrences", 0.07, linear, NO_TEST_HERE),
        part(
            "conformance",
            "Every model gives there what it gives on a CPU",
            0.08,
            [*conformance, "-k", "gpu"],
            NO_TEST_HERE,
        ),
    ]


def _speeds(request: GpuRequest) -> list[GpuPart]:
    head_width = max(LEAST, round(HEAD_WIDTH * request.size / LEAST) * LEAST)
    sizes = {key: scaled(key, size, request.size) for key, size in LARGE.items()}
    shape = {"width": HEADS * head_width, "heads": HEADS, **sizes}
    words = ["models=memory_mosaic", "reference=gpt2", "passes=training", "precision=bfloat16"]
    words += [f"{key}={value}" for key, value in {**shape, "device": request.device}.items()]

    def part(name: str, title: str, share: float, *options: str) -> GpuPart:
        skipped = NO_GRAPH_HERE if "graphs=true" in options else None
        title = f"Memory Mosaic against GPT2, {title}"
        words_of_part = [*words, "rounds=10", *options]
        return GpuPart(name, title, share, "bench.speed", words_of_part, read_speed, skipped)

    counted = [*words, "rounds=1", "count_launches=true"]
    return [
        part("plain", "plain", 0.055),
        part("compiled", "compiled", 0.14, "compile=true"),
        part("graphs", "as captured graphs", 0.055, "graphs=true"),
        part("compiled_graphs", "compiled and captured", 0.1, "compile=true", "graphs=true"),
        GpuPart(
            "launches", "Launches of their passes", 0.055, "bench.speed", counted, read_launches
        ),
    ]


def _stacks(request: GpuRequest) -> list[GpuPart]:
    sizes = {"models.width": 64, "training.batch_size": 16} if request.size < 1 else {}
    smaller = [f"{key}={scaled(key, size, request.size)}" for key, size in sizes.items()]
    words = ["tasks=regbench", "preset=laptop", "together=8", "rounds=3", "timed_steps=8", *smaller]
    words.append(f"device={request.device}")
    parts = []
    for model in STACKED:
        name, title = f"stack_{model}", f"Eight trainings of {model} as one"
        words_of_part = [*words, f"models={model}"]
        parts.append(GpuPart(name, title, 0.04, "bench.training_speed", words_of_part, read_stack))
    return parts


def _sweeps(request: GpuRequest) -> list[GpuPart]:
    words = [
        f"device={request.device}",
        f"scale={request.size!r}",
        word("store", str(request.store)),
        f"workers={request.processes}",
        word("mps", request.mps),
        word("models", request.models),
    ]
    titles = {"regbench": "RegBench at one budget for all", "recall": "Recall at preset gpu"}
    module, parts = "bench.gpu.sweeps", []
    for name, title in titles.items():
        words_of_part = [*words, f"plan={name}"]
        parts.append(GpuPart(name, title, ALL, module, words_of_part, read_whole, sweeps=True))
    return parts
