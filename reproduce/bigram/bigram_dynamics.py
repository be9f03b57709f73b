"""How an induction head is learned: which memory first, jointly or in turn, beside what is global,
and with random embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from bench.records.schema import RunRecord
from core.statistics import COUNT
from reproduce.bigram.bigram import CONTROL, PAPER, SLIDES, learned, over_steps, stepped
from reproduce.bigram.bigram import STEPS as NAMES
from reproduce.bigram.runs import FINE, NARROW, WIDE, is_of_dynamics
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Measured,
    Number,
    Rule,
    Runs,
    above,
    each,
    once,
    provided,
    setting,
    where,
    within,
)
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis

TITLE = "Bigram task: the order of learning, joint learning, global bigrams and random embeddings"
TRIGGERS = ("fixed", "random")
FIRST_SEED, SEEDS = 5, 5  # seeds 0 to 4 were seen, with fixed triggers, before there were claims
FEWER = 3  # seeds where not the order is asked, whose five the other runs share
OTHERS = ("smoke", "gpu", "paper")
JOINT_SEEDS = dict.fromkeys(OTHERS, SEEDS) | {"laptop": 7}
LEAST = 400  # SGD steps
EVALUATED = 512  # sequences: as few as 64 could not show 0.97, were all of them right
MUCH = 2  # times as many steps are much slower
KNOWN_BY_BIGRAMS = 0.86  # nats: entropy of characters, 3.31, minus that of one after another, 2.45
CHANGED = 0.1
PROBING = f"{SLIDES}, empirically probing the dynamics"
GLOBAL = f"{SLIDES}, global vs in-context associations"
ENDS = ("", "_without_w_f")


def _probed(label: str, triggers: str, loss_on: str = "known", in_turn: bool = False) -> Runs:
    kind = {"triggers": triggers, "loss_on": loss_on, "in_turn": in_turn}
    settings = {f"tasks.{key}": value for key, value in kind.items()}
    return Runs(label, "bigram_probes", settings=settings, choose=is_of_dynamics)


def _of_size(d: int) -> Runs:
    label, settings = f"random embeddings, d = {d}", {"models.width": d}
    return Runs(label, "three_gradient_steps", settings=settings, choose=is_of_dynamics)


JOINT = {kind: _probed(f"{kind} triggers", kind) for kind in TRIGGERS}
IN_TURN = _probed("in turn", "fixed", in_turn=True)
ALL_TOKENS = {kind: _probed(f"all tokens, {kind} triggers", kind, "all") for kind in TRIGGERS}
PROBED = (*JOINT.values(), IN_TURN, *ALL_TOKENS.values())
RANDOM = tuple(map(_of_size, (WIDE, NARROW)))


def _of_theory(width: int) -> OverSeeds:
    settings = {"models.embeddings": "gaussian", "models.width": width}
    models = ["disentangled_attention"]
    return OverSeeds("three_gradient_steps", models, settings, seeds=SEEDS, first_seed=FIRST_SEED)


def _simplified(
    settings: Mapping[str, Any],
    seeds: int | Mapping[str, int] = SEEDS,
    last: int = 0,
    presets: Sequence[str] = (),
) -> OverSeeds:
    fine = {"tasks.probe_every": FINE, **settings}
    models, longer = ["two_layer_attention"], {"laptop": {"tasks.steps": LEAST}}
    return OverSeeds("bigram_probes", models, fine, longer, presets, seeds, FIRST_SEED, last)


AT_ALL_TOKENS = {"models.feed_forward": True, "tasks.loss_on": "all", "tasks.ablated": True}
EACH_IN_TURN = {"tasks.triggers": "fixed", "tasks.in_turn": True}
RUNS = (
    _of_theory(WIDE),
    _of_theory(NARROW),
    _simplified({"tasks.triggers": "random"}),
    # The one whose accuracy is claimed.
    _simplified({"tasks.triggers": "fixed", "tasks.evaluated": EVALUATED}, JOINT_SEEDS),
    _simplified(EACH_IN_TURN, JOINT_SEEDS, presets=["laptop"]),
    _simplified(EACH_IN_TURN, last=FEWER, presets=OTHERS),
    _simplified({**AT_ALL_TOKENS, "tasks.triggers": "random"}, last=FEWER),
    _simplified({**AT_ALL_TOKENS, "tasks.triggers": "fixed"}, last=FEWER),
)


def variant(record: RunRecord) -> str:
    """The way in which it was trained."""
    return next((runs.label for runs in (*PROBED, *RANDOM) if runs.has(record)), "")


PANELS = []
for probed in PROBED:
    keys = "bigram_divergence" if probed in ALL_TOKENS.values() else "early_position_recall"
    PANELS.append(over_steps(probed, keys, probed.label, Axis("SGD steps")))


def half_learned(record: RunRecord, name: str) -> float | None:
    """The first probed step at which a curve has come half the way from its start to 1, or that of
    W_F's divergence to 0: a memory of 5 triggers starts at another chance than one of 65 tokens."""
    curve, end = record.curves.get(name), float(name != "bigram_divergence")
    if curve is None:
        return None
    far = [abs(end - (value or 0.0)) for value in curve.y]
    half_way = (x for x, distance in zip(curve.x, far, strict=True) if distance <= far[0] / 2)
    return next(half_way, None)


def steps_of(name: str, runs: Runs, times: int = 1) -> Measured:
    """The SGD steps until something is half learned, or a multiple of them; one that never is
    counts as the last step."""

    def read(record: RunRecord) -> float | None:
        if name not in record.curves:
            return None
        steps = half_learned(record, name)
        return times * (float(setting(record, "tasks.steps")) if steps is None else steps)

    often = f"{times} times the " if times > 1 else ""
    return Number("", read, COUNT).of(runs, f"{often}steps to half of {NAMES[name]}, {runs.label}")


def last(name: str, runs: Runs) -> Measured:
    """A metric of the trained model."""
    number = Number("", name, items=lambda record: int(setting(record, "tasks.evaluated")))
    return number.of(runs, f"{name.replace('_', ' ')}, {runs.label}")


LONG = where(
    lambda records: all(setting(r, "tasks.steps", LEAST) >= LEAST for r in records),
    "the dynamics of learning",
    f"asked after {LEAST} SGD steps or more",
    "laptop",
)


def _order(kind: str, first: str, then: str) -> Claim:
    earlier_name, later_name = NAMES[first], NAMES[then]
    sentence = (
        f"Natural learning order: W_O² first, W_K² next, W_K¹ last. Here, {earlier_name} is half "
        f"learned before {later_name}, with {kind} triggers."
    )

    def earlier(runs: Runs) -> Rule:
        later = above(steps_of(then, runs), steps_of(first, runs))
        return once(LONG, provided(learned(half_learned, (runs, first), (runs, then)), later))

    # A network before its training has learned none of both, which is no order.
    (else_,) = set(TRIGGERS) - {kind}
    control = Control(f"{else_} triggers in place of {kind} ones", earlier(JOINT[else_]))
    name = f"{earlier_name} before {later_name}, {kind} triggers"
    return Claim(name, sentence, earlier(JOINT[kind]), source=PROBING, control=control)


def _global(kind: str) -> Iterator[Claim]:
    runs = ALL_TOKENS[kind]
    (loss, worse), (whole, cut), (before, after) = (
        [last(f"{name}{end}", runs) for end in ENDS]
        for name in ("ordinary_loss", "global_share", "in_context_share")
    )
    learned_both = learned(half_learned, (runs, "accuracy"), (runs, "bigram_divergence"))
    later = above(steps_of("accuracy", runs), steps_of("bigram_divergence", runs, MUCH))
    first = provided(learned_both, later)
    changes = each((above(whole, cut, CHANGED), above(after, before, CHANGED)))
    rules = (first, above(worse, loss, KNOWN_BY_BIGRAMS), changes)
    for (name, sentence), rule in zip(SAID.items(), rules, strict=True):
        yield Claim(f"{name}, {kind} triggers", sentence, once(LONG, rule), source=GLOBAL)


SAID = {
    "global bigrams are learned first": (
        "Global bigrams are learned much faster than the induction head."
    ),
    "global bigrams are stored in W_F": (
        "Global bigrams tend to be stored in MLPs: without its feed-forward layer a model "
        "loses what bigrams know beyond the frequencies of tokens."
    ),
    "without W_F from global to in-context": (
        "Ablating late-layer MLPs changes prediction from global to in-context (said of LLMs; "
        "asked here of the simplified model and its only feed-forward layer)."
    ),
}
AFTER_THREE = stepped("accuracy").number
ORDER = ("output_recall", "token_recall", "early_position_recall")
CLAIMS = (
    *(_order(kind, *pair) for kind in TRIGGERS for pair in pairwise(ORDER)),
    Claim(
        "joint learning is faster",
        "Joint learning is faster: in-context accuracy is half learned sooner where all three "
        "memories learn from the start than where each waits for the one before it.",
        once(
            LONG,
            provided(
                learned(half_learned, (IN_TURN, "accuracy"), (JOINT["fixed"], "accuracy")),
                above(steps_of("accuracy", IN_TURN), steps_of("accuracy", JOINT["fixed"])),
            ),
        ),
        source=PROBING,
    ),
    *(claim for kind in TRIGGERS for claim in _global(kind)),
    Claim(
        "random embeddings are enough",
        "With all embeddings fixed to their random start two layers get about 99 % right.",
        once(LONG, within(last("accuracy", JOINT["fixed"]), low=0.97)),
        source=f"{SLIDES}, transformer setup and transformers on the bigram task",
    ),
    Claim(
        "three gradient steps with random embeddings",
        "Three gradient steps make an induction head, with random embeddings as well.",
        within(AFTER_THREE.of(RANDOM[0]), low=0.85),
        source=f"{SLIDES}, induction head with associative memories, and theorem (informal)",
    ),
    Claim(
        "random embeddings in high dimension",
        "Random embeddings are nearly orthonormal where d is large, so that a small d stores less.",
        above(AFTER_THREE.of(RANDOM[0]), AFTER_THREE.of(RANDOM[1]), by=0.1),
        source=f"{SLIDES}, random embeddings in high dimension",
    ),
)
EXPERIMENT = Experiment(
    TITLE,
    f"{SLIDES}; {PAPER}, sections 4 and 5",
    CLAIMS,
    runs=RUNS,
    records=[is_of_dynamics],
    panels=[PANELS[:3], PANELS[3:]],
    layout={"width": 11},
    variant=variant,
    control=CONTROL,
)
