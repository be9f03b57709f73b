"""Copying the token k positions back: who can address a token by its position?"""

from __future__ import annotations

from typing import Any

from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Number, Rule, Runs, each, provided, within
from reproduce.drawing.plots import dots_by_run
from reproduce.experiment import Experiment, over_seeds_of

TITLE = "Copying the token k positions back, with and without positions and convolutions"
PAPER = (
    "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394), appendix D.2: two mechanisms "
    "for positions, which do not allow a head to selectively address a token by position"
)
TASK, NEAR, FAR = "copy_by_position", 1, 8
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 5, "paper": 5}
RIGHT, WRONG = 0.95, 0.5
ACCURACY = Number("share of tokens that are right", "accuracy")


def _runs(label: str, model: str, delay: int, **models: Any) -> Runs:
    more = {f"models.{key}": value for key, value in models.items()}
    return Runs(f"{label}, {delay} back", TASK, model, {"tasks.delay": delay, **more})


POSITIONS = _runs("attention with positions", "gpt2", FAR, positions="learned")
NOTHING = {
    delay: _runs("attention alone", "gpt2", delay, positions="none") for delay in (NEAR, FAR)
}
MOSAIC = {delay: _runs("Memory Mosaic", "memory_mosaic", delay) for delay in (NEAR, FAR)}
CONVOLUTION = {
    delay: _runs("attention behind a convolution", "conv_attention", delay) for delay in (NEAR, FAR)
}
ALL = [POSITIONS, *NOTHING.values(), *MOSAIC.values(), *CONVOLUTION.values()]


def copies(runs: Runs) -> Rule:
    """Nearly every token is right."""
    return within(ACCURACY.of(runs), low=RIGHT)


def guesses(runs: Runs) -> Rule:
    """Half of the tokens are right at most."""
    return within(ACCURACY.of(runs), high=WRONG)


def near_alone(by_delay: dict[int, Runs]) -> Rule:
    """The neighbour is copied, and what lies further back is not, where positions reach it."""
    return provided(copies(POSITIONS), each([copies(by_delay[NEAR]), guesses(by_delay[FAR])]))


CLAIMS = (
    Claim(
        "positions address a token far back",
        f"One layer of attention with positions copies the token {FAR} positions back.",
        copies(POSITIONS),
        control=Control("attention without positions", copies(NOTHING[FAR])),
    ),
    Claim(
        "a Mosaic addresses the neighbour alone",
        "A Memory Mosaic of one block copies the last token but one, by its leaky average or by "
        f"values that peek ahead, and not the token {FAR} positions back.",
        near_alone(MOSAIC),
        control=Control("attention without either", near_alone(NOTHING)),
    ),
    Claim(
        "so does attention behind a short convolution",
        "A convolution over three positions serves attention without positions as they would for "
        "the neighbour, which an induction head needs, and not further back.",
        near_alone(CONVOLUTION),
        control=Control("attention without either", near_alone(NOTHING)),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    PAPER,
    CLAIMS,
    runs=over_seeds_of(ALL, seeds=SEEDS),
    records=ALL,
    panels=[dots_by_run("tokens that are right", "accuracy", ALL)],
    layout={"width": 8},
    variant=["tasks.delay", "models.positions"],
    control=EACH_ITS_OWN,
)
