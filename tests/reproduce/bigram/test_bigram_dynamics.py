"""Claims about the dynamics of learning, on constructed runs whose verdicts are known."""

from typing import Any

import numpy as np
import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.bigram import bigram, bigram_dynamics
from reproduce.bigram.bigram_dynamics import EXPERIMENT, JOINT, NAMES, half_learned
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

SEEDS = range(5, 10)
# Steps after which a probe has come half the way, where nothing else is said.
HALF = {"output_recall": 50, "token_recall": 100, "early_position_recall": 150, "accuracy": 200}


def probed(seed: int, steps: int = 400, changes: dict[str, Any] | None = None, **half: int) -> Any:
    """A run whose probes jump from a fifth to one at these steps, W_F's divergence from 2 to 0."""
    x = list(range(0, steps + 1, 5))
    jumps = {**HALF, "bigram_divergence": 30, **half}
    curves = {name: [0.2 if at < step else 1.0 for at in x] for name, step in jumps.items()}
    curves["bigram_divergence"] = [2.0 if y < 1 else 0.0 for y in curves["bigram_divergence"]]
    tasks = {"steps": steps, "probe_every": 5, "evaluated": 512, "triggers": "fixed"}
    tasks |= {"loss_on": "known", "in_turn": False, **(changes or {})}
    last = {"accuracy": 0.99, "ordinary_loss": 2.5, "ordinary_loss_without_w_f": 4.0}
    last |= {"global_share": 0.8, "global_share_without_w_f": 0.1}
    last |= {"in_context_share": 0.1, "in_context_share_without_w_f": 0.7}
    return make_record(
        seed=seed,
        task="bigram_probes",
        model="two_layer_attention",
        preset="laptop",
        config={"tasks": tasks, "models": {}, "training": {}},
        metrics={"test": {name: value + wobble(seed) / 10 for name, value in last.items()}},
        curves={name: Curve(x=x, y=y) for name, y in curves.items()},
    )


def stepped(seed: int, width: int, accuracy: float) -> RunRecord:
    return make_record(
        seed=seed,
        task="three_gradient_steps",
        model="disentangled_attention",
        preset="laptop",
        config={
            "tasks": {"evaluated": 1000},
            "models": {"width": width, "embeddings": "gaussian"},
            "training": {},
        },
        metrics={"test": {"accuracy": accuracy + wobble(seed) / 10}},
    )


def runs(wide: float = 0.93, **half: int) -> list[RunRecord]:
    """All runs of the figure; each seed is five steps later than the one before it."""
    later = [{name: at + 5 * (seed - 7) for name, at in {**HALF, **half}.items()} for seed in SEEDS]
    kinds: list[dict[str, Any]] = [
        *({"triggers": kind} for kind in ("fixed", "random")),
        *({"triggers": kind, "loss_on": "all"} for kind in ("fixed", "random")),
    ]
    found = [probed(s, changes=k, **at) for k in kinds for s, at in zip(SEEDS, later, strict=True)]
    found += [probed(s, changes={"in_turn": True}, accuracy=300 + s) for s in SEEDS]
    return found + [stepped(s, *one) for s in SEEDS for one in ((256, wide), (32, 0.3))]


def verdicts(records: list[RunRecord]) -> dict[str, str]:
    return {c.name: c.without_control(records).verdict for c in EXPERIMENT.claims}


def test_everything_is_reproduced_where_it_is_as_the_slides_say() -> None:
    records = EXPERIMENT.select(runs())
    assert len(records) == len(runs())
    assert set(verdicts(records).values()) == {REPRODUCED}
    assert set(verdicts([]).values()) == {UNDECIDED}
    assert rendered(EXPERIMENT.draw(records))


@pytest.mark.parametrize(
    ("changed", "contradicted"),
    [
        ({"token_recall": 20}, {"W_O² before W_K², fixed triggers", "W_O² before W_K², random"}),
        ({"token_recall": 250}, {"W_K² before W_K¹, fixed triggers", "W_K² before W_K¹, random"}),
        ({"accuracy": 390}, {"joint learning is faster"}),
        ({"bigram_divergence": 150}, {"global bigrams are learned first"}),
        ({"wide": 0.5}, {"three gradient steps with random embeddings"}),
    ],
)
def test_another_course_contradicts(changed: dict[str, Any], contradicted: set[str]) -> None:
    found = {name for name, one in verdicts(runs(**changed)).items() if one == CONTRADICTED}
    assert found
    assert all(any(name.startswith(one) for one in contradicted) for name in found)


@pytest.mark.parametrize(
    ("never", "claims"),
    [
        ({"token_recall"}, {"W_O² before W_K²", "W_K² before W_K¹"}),
        ({"accuracy"}, {"joint learning is faster", "global bigrams are learned first"}),
        ({"early_position_recall"}, {"W_K² before W_K¹"}),
    ],
)
def test_what_is_never_learned_has_no_place_in_an_order(never: set[str], claims: set[str]) -> None:
    """Not even the last one, where it counts as later than all that is learned."""
    found = verdicts(runs(**dict.fromkeys(never, 1000)))
    opened = {name.partition(", ")[0] for name, one in found.items() if one == UNDECIDED}
    assert opened == claims


@pytest.mark.parametrize(("never", "verdict"), [(2, REPRODUCED), (3, UNDECIDED)])
def test_an_order_is_asked_where_half_of_the_runs_learn(never: int, verdict: str) -> None:
    kind = {"triggers": "random"}
    late = [probed(s, changes=kind, token_recall=1000 if s < 5 + never else 100) for s in SEEDS]
    order = (JOINT["random"], "output_recall"), (JOINT["random"], "token_recall")
    found = bigram.learned(half_learned, *order).judge(late, 0.95)
    assert (found.verdict, found.seeds) == (verdict, 5)
    assert ("W_K² is never half learned in 3 of 5 runs" in found.evidence) == (never == 3)


def test_half_learned_is_half_the_way_from_the_start() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        x, y = [0.0, 5.0, 10.0, 15.0], [0.3, *generator.uniform(0, 1, 3)]
        record = probed(5).model_copy(update={"curves": {"accuracy": Curve(x=x, y=y)}})
        found = [at for at, value in zip(x, y, strict=True) if value >= 0.65]
        assert half_learned(record, "accuracy") == (found[0] if found else None)
    assert half_learned(record, "output_recall") is None


def test_short_runs_are_not_asked_about_dynamics() -> None:
    found = verdicts([probed(seed, steps=60) for seed in SEEDS])
    assert {one for name, one in found.items() if "embeddings" not in name} == {NOT_ASKED}


def test_the_two_figures_of_the_task_share_no_run() -> None:
    old = [probed(seed, changes={"probe_every": 10}) for seed in SEEDS]
    assert bigram.EXPERIMENT.select(runs()) == bigram_dynamics.EXPERIMENT.select(old) == []
    assert len(bigram.EXPERIMENT.select(old)) == len(old)


def test_the_plan_makes_every_run_that_a_claim_is_about() -> None:
    configurations = [
        compose([*words, "preset=laptop"]) for words in in_words(EXPERIMENT.plan("laptop", 1).runs)
    ]
    made = [
        make_record(task=one.task, model=one.model, config=one.resolved()) for one in configurations
    ]
    asked = (*bigram_dynamics.PROBED, *bigram_dynamics.RANDOM)
    assert [[kind.has(one) for one in made].count(True) for kind in asked] == [1] * len(made)
    assert set(HALF) <= set(NAMES)
