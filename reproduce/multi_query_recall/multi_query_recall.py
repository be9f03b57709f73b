"""Multi-query recall against the number of pairs and the size of the state, and with keys that are
written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from reproduce.judging.claims import (
    UNDECIDED,
    Claim,
    Finding,
    Tolerance,
    difference_above,
    every,
    mean_within,
)
from reproduce.judging.console import LeftOut
from reproduce.judging.observations import Sample, latest
from reproduce.judging.reproduction import Plan, Reproduction
from reproduce.multi_query_recall.figure import TITLE, draw
from reproduce.multi_query_recall.records import (
    EASY,
    FIXED_STATE,
    FORGETTING,
    LABELS,
    PLAIN,
    kind,
    metric,
    of,
    pairs,
    sample,
    steps,
    variant,
    widest,
    widths,
)

ZOOLOGY = "Arora et al. 2023, Zoology (arXiv 2312.04927)"
MOSAICS = "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394)"
TITANS = "Behrouz et al. 2025, Titans (arXiv 2501.00663)"
SEEDS = {"smoke": 1}  # of the others 3
MEMORY_STEPS = 100  # in which one layer of memory units has to learn the easy cell
ENOUGH_STEPS = 400
PAIRS = {"smoke": (2, 4, 8), "laptop": (2, 4, 8)}
MORE_PAIRS = (4, 8, 16, 32, 64)
# What leaves room in a sequence for keys that are written again.
PAIRS_OF_FORGETTING = {"smoke": (2, 4, 6), "laptop": (2, 4, 6)}
MORE_PAIRS_OF_FORGETTING = (4, 8, 16, 32)
REWRITTEN = 2
WIDTHS = {"smoke": (32,), "laptop": (16, 32, 64), "gpu": (64, 128, 256), "paper": (64, 128, 256)}
# The largest rate of the task's search space: with 3e-3 recurrent models need more steps than that.
RATE = {"laptop": ("training.lr=1.0e-2",)}

Test = Callable[[Sequence[RunRecord], Mapping[str, float]], Finding]


def plan(preset: str, seeds: int | None) -> Plan:
    """The easy cell of the two models that claims name; every model at several numbers of pairs
    and several widths, and at the largest width with keys that are written again."""
    task = "tasks=multi_query_recall"
    easy = (task, "tasks.protocol=easy", "models.layers=1")
    memory = () if preset == "smoke" else (f"training.steps={MEMORY_STEPS}",)
    rate = RATE.get(preset, ())
    plain = f"tasks.pairs={_list(PAIRS.get(preset, MORE_PAIRS))}"
    again = (
        f"tasks.pairs={_list(PAIRS_OF_FORGETTING.get(preset, MORE_PAIRS_OF_FORGETTING))}",
        f"tasks.rewritten={REWRITTEN}",
    )
    sizes = [f"models.width={width}" for width in WIDTHS[preset]]
    words = [
        (*easy, "models=memory_mosaic", *memory),
        (*easy, "models=conv_attention"),
        *((task, f"models={name}", plain, size, *rate) for size in sizes for name in LABELS),
        *((task, f"models={name}", *again, sizes[-1], *rate) for name in LABELS),
    ]
    count = seeds or SEEDS.get(preset, 3)
    return Plan(tuple((*one, f"seed={seed}") for one in words for seed in range(count)))


def _list(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Trained runs of the three kinds of cells."""
    found = [r for r in records if r.role not in ("trial", "baseline") and kind(r) is not None]
    return sorted(found, key=lambda record: record.run_id)


def trained(needed: int, cell: str, test: Test) -> Test:
    """The test, where the runs of a kind of cell had the steps without which they say nothing."""

    def judged(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        found = [steps(record) for record in of(records, cell)]
        if found and max(found) < needed:
            reason = f"judged after {needed} training steps or more: use preset=laptop"
            return LeftOut(UNDECIDED, reason, 0, topic="accuracy of trained models")
        return test(records, numbers)

    return judged


def learns_in_time(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Memory units of one layer, trained no longer than ``steps``, at the easy cell."""
    found = [r for r in of(records, EASY, "memory_mosaic") if steps(r) <= numbers["steps"]]
    says = f"after {max(map(steps, found))} steps" if found else ""
    return mean_within(sample(found, "memory_mosaic", says=says), numbers["low"])


def solves_the_easy_cell(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Attention with a short convolution, one layer, at the easy cell."""
    return mean_within(
        sample(of(records, EASY, "conv_attention"), "conv_attention"), numbers["low"]
    )


def holds(
    records: Sequence[RunRecord], numbers: Mapping[str, float], models: Sequence[str]
) -> Finding:
    """The accuracy of each model at the most pairs, at the largest width, between ``low`` and
    ``high``."""
    tests = []
    for model in models:
        found = widest(records, PLAIN, model)
        most = max(pairs(found), default=0)
        one = sample(found, model, f"accuracy/{most}", f"at {most} pairs")
        low, high = numbers.get("low", -1.0), numbers.get("high", 2.0)
        tests.append(partial(mean_within, one, low, high))
    return every(tests)


def falls(records: Sequence[RunRecord], numbers: Mapping[str, float], model: str) -> Finding:
    """Does the accuracy of a model that recalls something fall by more than ``by`` from the fewest
    pairs to the most?"""
    found = widest(records, PLAIN, model)
    if guess := _only_guesses(found, model, numbers["above"]):
        return guess
    few, *_, most = pairs(found)
    first, last = (sample(found, model, f"accuracy/{n}", f"at {n} pairs") for n in (few, most))
    return difference_above(first, last, numbers["by"])


def grows_with_the_state(
    records: Sequence[RunRecord], numbers: Mapping[str, float], model: str
) -> Finding:
    """Is a model that recalls something better at the most pairs with its largest state than with
    its smallest, by more than ``by``?"""
    found = widest(records, PLAIN, model)
    if guess := _only_guesses(found, model, numbers["above"]):
        return guess
    smallest, *others = widths(records, PLAIN, model)
    if not others:
        return LeftOut(UNDECIDED, "one width says nothing of it", 0, topic="size of the state")
    most = pairs(found)[-1]
    narrow = of(records, PLAIN, model, smallest)
    large, small = (
        sample(runs, model, f"accuracy/{most}", f"at {most} pairs, {state_of(runs):,} bytes")
        for runs in (found, narrow)
    )
    return difference_above(large, small, numbers["by"])


def state_of(records: Sequence[RunRecord]) -> int:
    """Bytes that a sequence keeps, of runs of one setting."""
    return max((record.cost.state_bytes or 0 for record in records), default=0)


def _only_guesses(found: Sequence[RunRecord], model: str, above: float) -> Finding | None:
    """No verdict on how a model falls that has not learned to recall in the first place."""
    numbers = pairs(found)
    if not numbers:
        return Finding(UNDECIDED, f"no runs of {LABELS[model]}", 0)
    fewest = numbers[0]
    one = sample(found, model, f"accuracy/{fewest}", f"at {fewest} pairs")
    if mean_within(one, 1 / fewest + above).verdict == "reproduced":
        return None
    values = ", ".join(f"{value:.3f}" for value in one.values) or "no number"
    reason = (
        f"{one.label}: {values}, not surely above a guess among its values ({1 / fewest:g}) after "
        f"{max(map(steps, found))} steps: what limits it here is not its state"
    )
    return Finding(UNDECIDED, reason, len(one.observations))


def recalls_more(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Attention with a short convolution above each model with a fixed state, at the most pairs."""
    ours = widest(records, PLAIN, "conv_attention")
    most = max(pairs(ours), default=0)
    name, says = f"accuracy/{most}", f"at {most} pairs"
    a = sample(ours, "conv_attention", name, says)
    rivals = [sample(widest(records, PLAIN, model), model, name, says) for model in FIXED_STATE]
    return every([partial(difference_above, a, rival, numbers["by"]) for rival in rivals])


def cannot_tell_the_latest(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Models that see no order among pairs: half of the rewritten keys get the latest value."""
    low, high = 0.5 - numbers["by"], 0.5 + numbers["by"]
    name, says = "accuracy_rewritten", "on rewritten keys"
    found = of(records, FORGETTING)
    samples = [sample(found, model, name, says) for model in ("memory_mosaic", "conv_attention")]
    return every([partial(_within, one, low, high) for one in samples])


def _within(one: Sample, low: float, high: float, level: float) -> Finding:
    return mean_within(one, low, high, level)


def forgets_the_first(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Titans above memory units on rewritten keys."""
    found = of(records, FORGETTING)
    name, says = "accuracy_rewritten", "on rewritten keys"
    a, b = (sample(found, model, name, says) for model in ("titans", "memory_mosaic"))
    return difference_above(a, b, numbers["by"])


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The numbers of all panels: by kind of cell, model and width."""
    numbers: dict[str, Any] = {}
    for cell in (EASY, PLAIN, FORGETTING):
        rows = []
        for model, label in LABELS.items():
            for size in widths(records, cell, model):
                found = latest(of(records, cell, model, size), lambda record: record.seed)
                names = ["accuracy", *(f"accuracy/{n}" for n in pairs(found) if cell != EASY)]
                if cell == FORGETTING:
                    names += ["accuracy_rewritten", "accuracy_once", "stale_rate"]
                rows.append(
                    {
                        "model": label,
                        "width": size,
                        "steps": max(map(steps, found)),
                        "state_bytes": state_of(found),
                        **{name: _summary(found, name) for name in names},
                    }
                )
        numbers[cell] = rows
    return numbers


def _summary(found: Sequence[RunRecord], name: str) -> dict[str, Any]:
    values = [metric(name)(record) for record in found]
    summary = mean_interval(values)
    seeds = {str(record.seed): value for record, value in zip(found, values, strict=True)}
    return {"seeds": seeds, "mean": summary.mean, "interval": summary.interval}


def _fixed_state(model: str) -> tuple[Claim, Claim]:
    label = LABELS[model]
    learned = "judged where it is surely {above:g} better than a guess at the fewest pairs"
    numbers = {"by": 0.1, "above": 0.2}
    return (
        Claim(
            f"{label} falls with the pairs",
            f"{ZOOLOGY}, section 4 and figure 2",
            f"{label} keeps a state of fixed size, so it recalls less the more pairs there are.",
            Tolerance(f"accuracy falls by more than {{by:g}}; {learned}", numbers),
            trained(ENOUGH_STEPS, PLAIN, partial(falls, model=model)),
        ),
        Claim(
            f"{label} recalls more with a larger state",
            f"{ZOOLOGY}, figure 2",
            f"{label} recalls more pairs, the larger its state.",
            Tolerance(
                "accuracy at the most pairs is higher by more than {by:g} with the largest state "
                f"than with the smallest; {learned}",
                {**numbers, "by": 0.0},
            ),
            trained(ENOUGH_STEPS, PLAIN, partial(grows_with_the_state, model=model)),
        ),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{ZOOLOGY}, section 4 and figure 2; {MOSAICS}, sections 3 and 4",
    plan=plan,
    select=select,
    variant=variant,
    varied=("tasks.pairs", "tasks.rewritten", "tasks.protocol", "models.width", "training.lr"),
    draw=draw,
    curves=curves,
    claims=(
        Claim(
            "one layer of memory units",
            f"{MOSAICS}, section 4",
            "One layer of memory units recalls every value, since values look one position ahead.",
            Tolerance(
                "accuracy of 1 (above {low:g}: every query of every seed) within {steps:g} "
                "training steps at 4 pairs, 64 tokens, 32 positions",
                {"low": 0.9999, "steps": MEMORY_STEPS},
            ),
            trained(MEMORY_STEPS, EASY, learns_in_time),
        ),
        Claim(
            "attention with a short convolution",
            f"{ZOOLOGY}, section 4",
            "One layer of attention recalls the values once a convolution shows it neighbours.",
            Tolerance(
                "accuracy of {low:g} or more with its whole 95 % interval over seeds, at 4 pairs, "
                "64 tokens, 32 positions",
                {"low": 0.99},
            ),
            trained(ENOUGH_STEPS, EASY, solves_the_easy_cell),
        ),
        Claim(
            "no fall with a state that grows",
            f"{ZOOLOGY}, section 4 and figure 2; {MOSAICS}, section 3",
            "Attention with a short convolution and memory units keep every pair: they recall as "
            "well when there are many.",
            Tolerance("accuracy of {low:g} or more at the most pairs", {"low": 0.99}),
            trained(
                ENOUGH_STEPS, PLAIN, partial(holds, models=("conv_attention", "memory_mosaic"))
            ),
        ),
        Claim(
            "the gap to fixed states",
            f"{ZOOLOGY}, section 4 and figure 2",
            "After the same steps attention with a short convolution recalls more of many pairs "
            "than the models with a state of fixed size.",
            Tolerance("accuracy at the most pairs is higher by more than {by:g}", {"by": 0.05}),
            trained(ENOUGH_STEPS, PLAIN, recalls_more),
        ),
        *(claim for model in FIXED_STATE for claim in _fixed_state(model)),
        Claim(
            "rewritten keys, without order",
            f"our conclusion from {MOSAICS}, equation 4: kernel regression does not depend on the "
            "order of its pairs",
            "Memory units, and attention that knows positions by a convolution only, cannot tell "
            "the latest value of a key from its first: keys that are trained show no order either.",
            Tolerance(
                "of the rewritten keys half get the latest value, within {by:g}", {"by": 0.1}
            ),
            trained(ENOUGH_STEPS, FORGETTING, cannot_tell_the_latest),
        ),
        Claim(
            "rewritten keys, with forgetting",
            f"{TITANS}, equations 13 and 14",
            "A memory that is corrected and forgets answers with the latest value more often than "
            "memory units do.",
            Tolerance("accuracy on rewritten keys is higher by more than {by:g}", {"by": 0.1}),
            trained(ENOUGH_STEPS, FORGETTING, forgets_the_first),
        ),
    ),
)
