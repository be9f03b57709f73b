"""The width at which a model has a number of parameters, or a state of so many bytes.

``models.parameters=100_000`` and ``models.state_bytes=16_384`` stand for ``models.width=W``, in a
command, in a sweep and in a search space. The width that is found takes their place in the
settings of a run, so that a run with that width written is the same run. Widths of this project's
models are counted on PyTorch's device "meta", where nothing is allocated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from bench.config.budgets import BUDGETS, TOLERANCE, SizeBudget
from bench.config.external import OURS
from bench.config.settings import Configuration
from bench.config.source_files import source_name
from bench.training.building import build_task, kept_random_state, load_subclass, prepare_data
from bench.training.memory import TooLarge, checked_as_it_is_built
from bench.training.storage import count_parameters
from core.errors import UserError, first_line
from core.progress import silent
from tasks.interface import Task

LARGEST_WIDTH = 2**17
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # between valid widths, for one head
USUAL = (64, 96, 128, 256, 384, 768)  # one of which can be built, if any can
MOST_REFUSED = 128  # widths in a row, of a model with a rule of its own
TRIED_IN_A_ROW = 3  # widths of one step that must all be valid


def width_for(configuration: Configuration, budget: SizeBudget) -> int:
    """The width at which a model meets a budget; what was found is told on stderr.

    Raises:
        UserError: as :func:`find_width`.
    """
    parts = (configuration.tasks, configuration.models, budget.key, budget.amount)
    key = json.dumps([*parts, configuration.task], sort_keys=True)
    if key not in _widths:  # every setting of a search asks
        best = find_width(configuration, budget)
        _widths[key] = best.width
        print(
            f"note: {budget.word} gives models.width={best.width}: {configuration.label} then has "
            f"{best.size:,} {BUDGETS[budget.key]}",
            file=sys.stderr,
        )
    return _widths[key]


_widths: dict[str, int] = {}


@dataclass(frozen=True)
class WidthAndSize:
    """A width, and what the model has at it."""

    width: int
    size: int


def find_width(configuration: Configuration, budget: SizeBudget) -> WidthAndSize:
    """The width whose model comes nearest to a budget; of two as near, the smaller.

    Raises:
        UserError: the model has no width or no such size, its other settings are refused, or no
            width comes within 5 %.
    """
    if configuration.takes is not None:
        raise UserError(
            f"{budget.word} is for models that the engine trains, and {configuration.task} builds "
            "its own: give their sizes by the settings of the model"
        )
    if "width" not in configuration.models:
        settings = ", ".join(sorted(configuration.models.keys() - {"_target_"}))
        raise UserError(
            f"{budget.word} sets models.width, which {configuration.label} does not have: give its "
            f"sizes by its own settings ({settings or 'it has none'})"
        )
    load_subclass(configuration.models["_target_"], "models")  # with tensors of its module real
    prepare_data(configuration, silent)
    size_at = _counter(configuration, build_task(configuration), budget)
    step = _step_of_widths(configuration, size_at)
    # Only these two are compared: sizes grow with the width, so all others are further away.
    below, above = _neighbours(size_at, step, budget.amount)
    near = [sized for sized in (below, above) if sized is not None]
    best = min(near, key=lambda sized: abs(sized.size - budget.amount), default=None)
    if best is None or abs(best.size - budget.amount) > TOLERANCE * budget.amount:
        sizes = " and ".join(f"models.width={s.width} has {s.size:,}" for s in near)
        of_step = f", in steps of {step}" if step > 1 else ""
        larger = [f"models.{key}" for key in ("layers", "heads") if key in configuration.models]
        other_ways = " or another budget"
        if larger:
            other_ways = f", another budget, or change {' or '.join(larger)}"
        raise UserError(
            f"no width of {configuration.label} comes within {TOLERANCE:.0%} of {budget.word}"
            f"{of_step}: {sizes or 'none can be built'}; give one of these widths"
            f"{other_ways}"
        )
    return best


SizeAt = Callable[[int], int | None]  # width -> parameters or bytes; None where it is refused


def _counter(configuration: Configuration, task: Task, budget: SizeBudget) -> SizeAt:
    """What a model of each width has."""
    refusals: dict[int, Exception] = {}

    target = configuration.models["_target_"]

    def build(width: int) -> nn.Module:
        settings = {**configuration.models, "width": width}
        del settings["_target_"]
        model: nn.Module = load_subclass(target, "models")(task.specification(), **settings)
        return model

    def sized(width: int) -> nn.Module:
        if source_name(target) in OURS:
            return _on_meta(build, width)
        # A class of others may keep what it makes for the next model, so it is built with content.
        cpu = torch.device("cpu")
        with kept_random_state(cpu), checked_as_it_is_built(configuration.label, cpu):
            return build(width)

    @cache
    def size_at(width: int) -> int | None:
        try:
            return _size(configuration, sized(width), task, budget)
        except TooLarge as error:
            refusals[width] = error
            return sys.maxsize if budget.key == "models.parameters" else None
        except UserError:
            raise
        except Exception as error:  # of whatever kind a model of somebody else raises
            refusals[width] = error
            return None

    width, heads = configuration.models["width"], _heads(configuration)
    candidates = dict.fromkeys((width, *USUAL, *(heads * width for width in USUAL)))
    tried = [width for width in candidates if isinstance(width, int) and width > 0]
    if not any(size_at(width) is not None for width in tried):
        refusal = next(iter(refusals.values()))
        cause = first_line(refusal)
        raise UserError(
            f"{budget.word}: {configuration.label} cannot be built at any width that was tried "
            f"({', '.join(map(str, tried))}): {cause}"
        )
    return size_at


def _heads(configuration: Configuration) -> int:
    """The number of heads, by which the width may have to be divisible; 1 where the model has
    none."""
    heads = configuration.models.get("heads")
    return heads if isinstance(heads, int) and heads > 0 else 1


def _on_meta(build: Callable[[int], nn.Module], width: int) -> nn.Module:
    """A model without numbers, or a real one where its constructor looks at numbers."""
    with kept_random_state(torch.device("cpu")):
        try:
            with torch.device("meta"):
                return build(width)
        except (NotImplementedError, RuntimeError, TypeError):
            return build(width)


def _size(configuration: Configuration, model: nn.Module, task: Task, budget: SizeBudget) -> int:
    """What a budget counts of a model: its parameters, or the bytes that it keeps of a sequence."""
    if budget.key == "models.parameters":
        return count_parameters(model)
    state_bytes = getattr(model, "state_bytes", None)
    if state_bytes is None:
        raise UserError(
            f"{budget.word}: {configuration.label} does not say what it keeps (it has no "
            "state_bytes): give models.parameters=N or models.width=N"
        )
    return int(state_bytes(task.specification().maximum_length))


def _step_of_widths(configuration: Configuration, size_at: SizeAt) -> int:
    """The smallest step whose multiples are all valid: of heads, say, or of pairs in each head."""
    heads = _heads(configuration)
    for step in sorted({*STEPS, *(heads * step for step in STEPS)}):
        # Looked for from the configured width on.
        first = max(1, -(-int(configuration.models["width"] or 64) // step))
        if all(size_at((first + more) * step) is not None for more in range(TRIED_IN_A_ROW)):
            return step
    return 1  # a rule of its own: widths that are refused are passed over


def _neighbours(
    size_at: SizeAt, step: int, amount: int
) -> tuple[WidthAndSize | None, WidthAndSize | None]:
    """The largest width that has less than ``amount``, and the smallest that has as much: a model
    grows with its width."""

    def valid(multiple: int, direction: int, end: int) -> WidthAndSize | None:
        """The next multiple that can be built, before ``end``."""
        for _ in range(MOST_REFUSED):
            if not 0 < multiple * step <= LARGEST_WIDTH or multiple == end:
                return None
            if (size := size_at(multiple * step)) is not None:
                return WidthAndSize(multiple * step, size)
            multiple += direction
        return None

    # Doubling, then bisection: some twenty models on "meta" instead of one for each width.
    low, high = 0, 1  # multiples: less than the amount, and as much
    while high * step <= LARGEST_WIDTH:
        sized = valid(high, 1, 2 * high)
        if sized is not None and sized.size >= amount:
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        sized = valid(middle, 1, high)
        if sized is None or sized.size >= amount:
            high = middle
        else:
            low = sized.width // step
    # Downwards from below and upwards from above, past widths that the model refuses.
    return valid(low, -1, 0), valid(high, 1, 2 * LARGEST_WIDTH)
