"""Models beside those of public packages: passes of either in turn, in one process."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from bench.timing.passes import TimedModel, build_model
from bench.timing.peers import PEERS, Peer, Shape
from bench.timing.settings import Keep, SpeedSettings
from bench.timing.steps import SHORTEST, machine
from bench.training.building import resolve_device
from bench.training.memory import keep_freed_memory
from bench.training.storage import count_parameters
from core.errors import UserError, nearest
from core.progress import Report, now_and_then

PASSES = ("training", "forward")  # what every package has
WARM_UP = 1  # rounds that do not count
USUAL_MULTIPLE = 4  # of the width, in feed-forward layers


def measure_beside_peers(settings: SpeedSettings, report: Report, keep: Keep) -> dict[str, Any]:
    """Seconds of a pass of ours and of each installed package's model of its kind, at the first
    length and vocabulary. The ratio, package over ours, is the median of those within a round, with
    its quartiles: above 1 ours is faster.

    Raises:
        UserError: a model that no package has, no package that is installed, or dropout.
    """
    peers = _peers_of(settings.models)
    if settings.dropout != [0.0]:
        raise UserError("packages are timed without dropout: leave dropout=[0.0]")
    torch.set_num_threads(settings.threads)
    keep_freed_memory()
    device = resolve_device(settings.device)
    described = settings.model_dump(mode="json", exclude={"output", "before"})
    rows: list[dict[str, Any]] = []
    measurement = {"settings": described, **machine(device), "beside_peers": rows}
    for number, peer in enumerate(peers):
        activity = f"{peer.model} beside {peer.package}"
        alive = now_and_then(partial(report, activity, number, len(peers)))
        rows.append(_times_beside(settings, peer, device, alive))
        keep(measurement)
        report(activity, number + 1, len(peers))
    return measurement


def _peers_of(models: Sequence[str]) -> list[Peer]:
    """The installed packages to time beside some models; beside all where none is named."""
    with_peers = sorted({peer.model for peer in PEERS})
    for name in models:
        if name not in with_peers:
            raise UserError(f"no package is timed beside '{name}': {nearest(name, with_peers)}")
    wanted = [peer for peer in PEERS if not models or peer.model in models]
    installed = [peer for peer in wanted if peer.version is not None]
    if not installed:
        packages = " ".join(dict.fromkeys(peer.package for peer in wanted))
        raise UserError(f"none of these packages is installed: pip install {packages}")
    return installed


def _times_beside(
    settings: SpeedSettings, peer: Peer, device: torch.device, alive: Callable[[], None]
) -> dict[str, Any]:
    """Times of a model and of its peer, which take turns, each the first in every second round."""
    length, vocabulary = settings.length[0], settings.vocabulary[0]
    ours = build_model(settings, peer.model, length, vocabulary, 0.0, peer.settings)
    shape = Shape(
        vocabulary,
        length + 1,
        settings.width,
        settings.layers,
        settings.heads,
        USUAL_MULTIPLE * settings.width,
    )
    torch.manual_seed(settings.seed)
    try:
        theirs = peer.with_parameters(shape, count_parameters(ours))
    except ImportError as error:
        raise UserError(
            f"{peer.package} {peer.version} is installed and cannot be imported ({error}): install "
            "what it needs, or leave it out by models="
        ) from None
    sides = {
        "ours": TimedModel(settings, ours, length, vocabulary, device),
        "package": TimedModel(settings, theirs, length, vocabulary, device),
    }
    row: dict[str, Any] = {
        "model": peer.model,
        "changes": dict(peer.settings),
        "package": peer.package,
        "version": peer.version,
        "parameters": {side: count_parameters(timed.model) for side, timed in sides.items()},
    }
    for kind in (kind for kind in PASSES if kind in settings.passes):
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(WARM_UP + settings.rounds):
            for side in list(sides) if number % 2 else list(sides)[::-1]:
                spent = max(getattr(sides[side], kind)(), SHORTEST)
                if number >= WARM_UP:
                    seconds[side].append(spent)
                alive()
        ratios = [p / o for p, o in zip(seconds["package"], seconds["ours"], strict=True)]
        row[kind] = {
            "median_seconds": {side: statistics.median(s) for side, s in seconds.items()},
            "seconds": seconds,
            "ratio": statistics.median(ratios),
            "ratio_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        }
    return row
