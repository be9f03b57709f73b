"""State tracking: who follows the product of a group, and how far beyond training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from bench.config.groups import default_models
from bench.records.schema import Curve, RunRecord
from reproduce.claims.claims import Claim, Closed
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import (
    Rule,
    Runs,
    above,
    each,
    once,
    provided,
    setting,
    trained_for,
    within,
)
from reproduce.drawing.traces import curve_over_seeds
from reproduce.experiment import Experiment, Sweep
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace
from reproduce.state_tracking.whole_words import FAR, NEAR, share_by_length

TITLE = "State tracking: word problems of groups, trained short and asked long"
ILLUSION = "Merrill, Petty and Sabharwal 2024, The illusion of state (arXiv 2404.08819)"
GOOSE = "Peng et al. 2025, RWKV-7 Goose (arXiv 2503.14456): it tracks states"
GRAZZI = "Grazzi et al. 2024, Unlocking state-tracking in linear RNNs (arXiv 2411.12537)"

# What a state goes through at a position.
NONLINEAR = ("lstm",)
NEGATIVE = ("delta_net_negative", "gated_delta_net_negative")  # eigenvalues from -1 to 1
DIAGONAL = ("mamba", "s4d", "mamba2", "gla", "retnet")  # non-negative, or the same at all positions
POSITIVE = (*DIAGONAL, "delta_net", "gated_delta_net")  # eigenvalues from 0 to 1, or the same
ATTENTION = ("gpt2", "gpt2_rope")  # nothing: only depth
RANK_ONE = ("rwkv7",)  # what is erased and what is asked of it are vectors of their own
# A reflection at each position, which is what a swap is; the same writes without reflections; and
# attention, by one model of each, since a run on S₅ takes minutes.
REFLECTING, NOT_REFLECTING = ("delta_net_negative",), ("delta_net", "gpt2_rope")
GROUPS = {  # what it is called, its letters, a guess
    "parity": ("parity", "all", 1 / 2),
    "s3": ("S₃", "all", 1 / 6),
    "z60": ("Z₆₀", "all", 1 / 60),
    "a5": ("A₅, cycles of three", "small", 1 / 60),
    "s5": ("S₅, swaps", "small", 1 / 120),
}
STEPS = 3000  # without which an accuracy says nothing
# Of what still learns the words of training after those of all others: before that it has nothing
# to lose far beyond them. Of what should make no mistake there, but did with some seeds; and of
# what a claim is about whose rows still improved.
LONG_STEPS = {"laptop": 9000}
SLOW = {"parity": ("gpt2", *NEGATIVE, *RANK_ONE), "s5": (*NOT_REFLECTING, *RANK_ONE)}
# Of attention on parity: the five of all models, and ten that decide by themselves.
SEEDS_OF_ATTENTION = 15
# Test words of whoever should make no mistake on parity: 256 of them, all followed to their end,
# leave room for an accuracy of 0.986.
ITEMS = {"laptop": 1024}
SURE_OF_PARITY = (NONLINEAR, NEGATIVE)  # asked for so many, each after the steps that it takes
S5 = "state_tracking.s5"  # where fewer models contend than on parity
ASKED = {"smoke": ("parity", "s3"), "laptop": ("parity", "s5")}  # elsewhere all of them


def sweeps(preset: str) -> list[Sweep]:
    """A sweep over all models for each group. Whoever takes part on parity does on S₅, but for
    those whose cards say ``state_tracking.s5: gpu``."""
    if preset != "laptop":
        return [_sweep(group) for group in ASKED.get(preset, GROUPS)]
    long_steps = LONG_STEPS[preset]
    long = {"training.steps": long_steps, "training.validate_every": long_steps // 20}
    many_words = {"tasks.test_size": ITEMS[preset]}
    five, fifteen = {"sweep.seeds": 5}, {"sweep.seeds": SEEDS_OF_ATTENTION}
    slow = [model for model in SLOW["parity"] if model not in chain(*SURE_OF_PARITY)]
    return [
        _sweep("parity", (), five),  # as the verdict on attention over three named
        _sweep("parity", slow, long),
        _sweep("parity", NONLINEAR, {**five, **many_words}),
        _sweep("parity", NEGATIVE, {**five, **many_words, **long}),
        replace(_sweep("parity", ATTENTION, fifteen), adds_seeds=True),
        _sweep("s5", default_models(S5, preset)),
        _sweep("s5", SLOW["s5"], long),
    ]


def _sweep(group: str, models: Sequence[str] = (), more: Mapping[str, Any] | None = None) -> Sweep:
    settings = {"tasks.group": group, "tasks.letters": GROUPS[group][1], **(more or {})}
    return Sweep("state_tracking", models, settings)


def of(model: str, group: str = "parity") -> Runs:
    """The finals of one model on one group."""
    settings = {"tasks.group": group, "tasks.letters": GROUPS[group][1]}
    return Runs(f"{label(model)} on {GROUPS[group][0]}", "state_tracking", model, settings)


def of_many_words(model: str) -> Runs:
    """Those on parity, with the steps that the model takes, that are asked for so many words that
    one mistake in a hundred would show."""
    runs = learned(model, "parity")
    return runs.but(
        f"{runs.label}, {max(ITEMS.values()):,} words",
        choose=lambda record: setting(record, "tasks.test_size") >= ITEMS.get(record.preset, 0),
    )


def learned(model: str, group: str) -> Runs:
    """Those with the steps that the model takes on a group; others count where it is not slow."""
    runs = of(model, group)
    if model not in SLOW.get(group, ()):
        return runs
    return runs.but(
        f"{runs.label}, {max(LONG_STEPS.values()):,} steps",
        choose=lambda record: steps(record) >= LONG_STEPS.get(record.preset, 0),
    )


def _belongs(record: RunRecord) -> bool:
    """Whether it is a final run with the layers of its preset: figures of their own, delta_product
    and mamba3, ask for one layer, and smoke has no more."""
    one_layer = setting(record, "models.layers") == 1 and record.preset != "smoke"
    return record.task == "state_tracking" and record.role == "final" and not one_layer


def steps(record: RunRecord) -> int:
    """Steps that the model of a run was trained for."""
    return int(record.config["training"]["steps"])


def picture(records: Sequence[RunRecord]) -> Picture:
    """Accuracy by position, a panel for each group, and below it the words without a mistake."""
    groups = {record.config["tasks"]["group"] for record in records} or GROUPS
    drawn_groups = [group for group in GROUPS if group in groups]
    rows = []
    for part in filter(None, (drawn_groups[:3], drawn_groups[3:])):
        rows.append(PanelRow([_by_position(records, group) for group in part]))
        rows.append(PanelRow([_whole_words(records, group) for group in part]))
    return Picture(TITLE, rows, width=12, legend="below")


def _by_position(records: Sequence[RunRecord], group: str) -> Panel:
    """Accuracy by letter."""
    title, _, guess = GROUPS[group]
    traces = _traces(records, group, "accuracy_by_position")
    remarks = [Remark("guess", y=guess), *_training_lengths(records)]
    return Panel(title, Axis("position"), Axis("accuracy", limits=(0, 1.05)), traces, remarks)


def _whole_words(records: Sequence[RunRecord], group: str) -> Panel:
    """The share of words of which every state is right."""
    traces = _traces(records, group, share_by_length)
    x, y = Axis("letters of a word"), Axis("share of words without a mistake", limits=(0, 1.05))
    return Panel(f"{GROUPS[group][0]}, whole words", x, y, traces, _training_lengths(records))


def _traces(
    records: Sequence[RunRecord], group: str, curve: str | Callable[[RunRecord], Curve]
) -> list[Trace]:
    """A curve for each model, and for each number of steps that it was trained for."""
    runs = [record for record in records if of(record.model, group).has(record)]
    usual = min(map(steps, runs), default=0)
    traces = []
    for model, count in sorted({(run.model, steps(run)) for run in runs}):
        of_length = of(model, group).but(
            "", choose=lambda record, count=count: steps(record) == count
        )
        name, line = label(model), ""
        if count > usual:
            name, line = f"{name}, {count:,} steps", "dashdot"
        traces.append(curve_over_seeds(name, of_length.of(runs), curve, colour=model, line=line))
    return traces


def _training_lengths(records: Sequence[RunRecord]) -> list[Remark]:
    lengths = sorted({record.config["tasks"]["length"] for record in records})
    return [Remark("training length", x=length) for length in lengths]


SURE, GUESSED, FALL = 0.99, 0.6, 0.05  # of parity, where a guess has 0.5
# Of S₅, where whoever knows the letters without their order has 1/60.
FOLLOWS_S5, MOST, COSETS = 0.9, 0.5, 0.05
# What shows that a model follows words as short as those of training: more than the last letter
# tells of parity; and of S₅ products of three letters or more of 16, where the last tells 0.08.
FOLLOWED = {"parity": GUESSED, "s5": 0.2}


def far(models: Sequence[str], group: str, low: float = 0.0, high: float = 1.0) -> Rule:
    """The accuracy of each of these models far beyond the training length."""
    rules = [within(FAR.of(learned(model, group)), low, high) for model in models]
    text = f"{FAR.name} of {low:g} to {high:g}: {', '.join(models)} on {GROUPS[group][0]}"
    return once(trained_for(STEPS, "laptop"), each(rules, text))


def near(models: Sequence[str], group: str) -> Rule:
    """Each of these models follows the words of training for some positions."""
    low = FOLLOWED[group]
    rules = [within(NEAR.of(learned(model, group)), low=low) for model in models]
    text = f"each has {NEAR.name} of {low:g} or more"
    return once(trained_for(STEPS, "laptop"), each(rules, text))


def lost(models: Sequence[str], group: str, high: float) -> Rule:
    """Each of these models is wrong far beyond the training length, where all of them follow the
    words of training for some positions: whoever learned nothing loses nothing.

    It says what these trainings came to. That no training could do better is theory's to say: of
    models that can follow, RWKV-7 is as wrong after as many steps or more."""
    return provided(near(models, group), far(models, group, high=high))


def keeps(model: str) -> Rule:
    """A model makes hardly a mistake on parity far beyond the training length, of many words."""
    return once(trained_for(STEPS, "laptop"), within(FAR.of(of_many_words(model)), low=SURE))


def falls(models: Sequence[str]) -> Rule:
    """Accuracy on parity falls from the positions of training, some of which each of these models
    follows, to those far beyond them."""
    runs = [learned(model, "parity") for model in models]
    fall = each([above(NEAR.of(run), FAR.of(run), FALL) for run in runs])
    return provided(near(models, "parity"), once(trained_for(STEPS, "laptop"), fall))


def _beside(model: str, rule: Rule) -> Control:
    return Control(f"{label(model)} in its place", rule)


CLAIMS = (
    Claim(
        "a nonlinear state keeps parity",
        "An LSTM, whose state goes through a nonlinear map, follows parity far beyond training.",
        keeps("lstm"),
        source=GRAZZI,
        control=_beside("mamba", far(("mamba",), "parity", low=SURE)),
    ),
    Claim(
        "negative eigenvalues keep parity",
        "A linear recurrence whose transitions may have negative eigenvalues follows parity.",
        each(map(keeps, NEGATIVE)),
        source=GRAZZI,
        control=_beside("mamba", far(("mamba",), "parity", low=SURE)),
        closed={"laptop": Closed('"Negative eigenvalues keep parity" asks for 1,024 words')},
    ),
    Claim(
        "RWKV-7 keeps parity",
        "RWKV-7 tracks a state: it follows parity far beyond training.",
        far(RANK_ONE, "parity", low=SURE),
        source=GOOSE,
        control=_beside("mamba", far(("mamba",), "parity", low=SURE)),
    ),
    Claim(
        "positive eigenvalues lose parity",
        "Linear recurrences whose transitions have eigenvalues from 0 to 1, or are the same at all "
        "positions, do not follow parity far beyond training, as by theory they cannot.",
        lost(POSITIVE, "parity", high=GUESSED),
        source=f"{GRAZZI}, theorem 1",
        control=_beside("lstm", far(NONLINEAR, "parity", high=GUESSED)),
    ),
    Claim(
        "attention falls off",
        "Attention of fixed depth falls off beyond its training length.",
        falls(ATTENTION),
        source=ILLUSION,
        control=_beside("lstm", falls(NONLINEAR)),
    ),
    Claim(
        "S₅ needs more than diagonal",
        "Diagonal recurrences do not follow S₅, as by theory they cannot: a long word tells them "
        "no more than its letters tell without their order. A nonlinear state follows it.",
        each([lost(DIAGONAL, "s5", high=COSETS), far(NONLINEAR, "s5", low=MOST)]),
        source=ILLUSION,
        control=_beside("lstm", far(NONLINEAR, "s5", high=COSETS)),
    ),
    Claim(
        "reflections keep S₅",
        "The delta rule follows S₅ from its swaps far beyond training where its transitions may be "
        "reflections, with an eigenvalue of -1: a swap is one.",
        far(REFLECTING, "s5", low=FOLLOWS_S5),
        source=f"{GRAZZI}, section 5, S₅ with swaps alone",
        control=_beside("delta_net", far(("delta_net",), "s5", low=FOLLOWS_S5)),
    ),
    Claim(
        "RWKV-7 keeps S₅",
        "RWKV-7 tracks a state: it follows S₅ from its swaps far beyond training.",
        far(RANK_ONE, "s5", low=FOLLOWS_S5),
        source=GOOSE,
        control=_beside("delta_net", far(("delta_net",), "s5", low=FOLLOWS_S5)),
    ),
    Claim(
        "S₅ needs reflections or nonlinearity",
        "The delta rule with eigenvalues from 0 to 1, and attention of fixed depth, do not follow "
        "S₅, as by theory they cannot: a long word tells them no more than its letters tell "
        "without their order.",
        lost(NOT_REFLECTING, "s5", high=COSETS),
        source=f"{GRAZZI}, theorem 1; {ILLUSION}",
        control=_beside("delta_net_negative", far(REFLECTING, "s5", high=COSETS)),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{ILLUSION}; {GRAZZI}; {GOOSE}",
    CLAIMS,
    sweeps=sweeps,
    records=[_belongs],
    panels=picture,
    variant=["tasks.group", "tasks.test_size", "training.steps"],
    varied=("tasks.group", "tasks.letters", "tasks.test_size"),
    control=EACH_ITS_OWN,
)
