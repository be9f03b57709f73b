"""Multi-query recall against the number of pairs and the size of the state, and with keys that are
written again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim, Closed
from reproduce.claims.grammar import (
    Measured,
    Number,
    Ready,
    Records,
    Rule,
    Runs,
    above,
    each,
    once,
    setting,
    where,
    within,
)
from reproduce.claims.verdicts import REPRODUCED, UNDECIDED, Finding, no_runs
from reproduce.drawing.traces import over_metrics, over_seeds
from reproduce.experiment import Experiment
from reproduce.multi_query_recall import runs
from reproduce.multi_query_recall.runs import EASY, FORGETTING, LONG, PLAIN
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace

TITLE = "Multi-query recall: how many pairs a sequence model keeps, and which value of two"
ZOOLOGY = "Arora et al. 2023, Zoology (arXiv 2312.04927)"
MOSAICS = "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394)"
TITANS = "Behrouz et al. 2025, Titans (arXiv 2501.00663)"
ANSWERS = {  # metric: marker, what it is
    "accuracy_once": ("square", "keys written once"),
    "accuracy_rewritten": ("circle", "keys written twice"),
    "stale_rate": ("cross", "answered with their first value"),
}
BYTES = "bytes that a sequence keeps"
ACCURACY = Axis("accuracy", limits=(-0.03, 1.05))


def picture(records: Records) -> Picture:
    """Four panels: accuracy by pairs, by size of the state; the same by pairs where keys are
    written again, and which value such keys get."""
    lengths = sorted(set(map(runs.steps, runs.of(records, PLAIN))))
    plain = "one layer, every key written once"
    if lengths:
        plain = f"{plain}, after {'–'.join(map(str, lengths))} training steps"
    rewritten = "some keys written twice: the latest value counts"
    above = [_by_pairs(records, PLAIN, plain), _by_state(records)]
    below = [_by_pairs(records, FORGETTING, rewritten), _values(runs.of(records, FORGETTING))]
    return Picture(TITLE, [PanelRow(above, height=3), PanelRow(below, height=3)], legend="below")


def _by_pairs(records: Records, cell: str, title: str) -> Panel:
    """The accuracy of each model at the largest width; where keys are written once, also of those
    that were trained for more steps."""
    in_cell = runs.of(records, cell)
    numbers = runs.pairs(in_cell)
    rewritten = max((record.config["tasks"]["rewritten"] for record in in_cell), default=0)
    guess = [1 / (number + rewritten) for number in numbers]
    metrics = {number: f"accuracy/{number}" for number in numbers}
    traces = [Trace("guess among the values", numbers, guess, role="reference")]
    for model in runs.models_of(in_cell):
        widest = runs.widest(records, cell, model)
        traces.append(over_metrics(runs.label(model), widest, metrics, colour=model))
    for model in runs.COMPARED if cell == PLAIN else ():
        if longer := runs.widest(records, LONG, model):
            name = f"{runs.label(model)}, {max(map(runs.steps, longer)):,} steps"
            look: dict[str, Any] = {"colour": model, "line": "dotted", "hollow": True}
            traces.append(over_metrics(name, longer, metrics, **look))
    return Panel(title, Axis("pairs in a sequence", "log2", ticks=numbers), ACCURACY, traces)


def _by_state(records: Records) -> Panel:
    """Accuracy at the most pairs against the bytes of the state, a line through the widths."""
    most = (runs.pairs(runs.of(records, PLAIN)) or [0])[-1]
    traces = []
    for model in runs.models_of(records):
        by_state = {}
        for width in runs.widths(records, PLAIN, model):
            of_width = runs.of(records, PLAIN, model, width)
            if runs.state_of(of_width):
                by_state[runs.state_of(of_width)] = of_width
        name = runs.label(model)
        traces.append(over_seeds(name, by_state, f"accuracy/{most}", colour=model))
    title = f"{most} pairs, by size of the state (widths)"
    return Panel(title, Axis(BYTES, scale="log"), ACCURACY, traces)


def _values(records: Records) -> Panel:
    """Which value each model gives keys that were written once, and twice."""
    models, traces = runs.models_of(records), []
    for place, model in enumerate(models):
        of_model = [record for record in records if record.model == model]
        for shift, (metric, (marker, says)) in enumerate(ANSWERS.items()):
            look: dict[str, Any] = {"mark": "dots", "colour": model, "marker": marker}
            look |= {"aside": 1.6 * (shift - 1), "legend": says}
            name = f"{runs.label(model)}, {says}"
            traces.append(over_seeds(name, {place: of_model}, metric, **look))
    labels = [runs.label(model).replace(" with a ", "\nwith a\n") for model in models]
    return Panel("which value the keys get", Axis(categories=labels), ACCURACY, traces)


# What is claimed

ENOUGH_STEPS = 400
ALL_RIGHT = 0.99
BETTER_THAN_A_GUESS = 0.2
FALL = 0.1


def accuracy(
    model: str,
    cell: str,
    name: str = "accuracy",
    says: str = "",
    choose: Callable[[RunRecord], bool] = lambda record: True,
) -> Measured:
    """A metric of a model's runs in a kind of cell; ``says`` follows its label."""
    chosen = lambda record: runs.kind(record) == cell and choose(record)  # noqa: E731
    number = Number("accuracy", name, items=lambda record: int(setting(record, "tasks.test_size")))
    label = f"{runs.label(model)} {says}".rstrip()
    return number.of(Runs(runs.label(model), model=model, choose=chosen), label)


def at_pairs(
    records: Records, model: str, place: int, of_width: int | None = None, cell: str = PLAIN
) -> Measured:
    """The accuracy at the fewest (0) or the most (-1) pairs, at the largest width."""
    widest = runs.widest(records, cell, model)
    if not runs.pairs(widest):
        return accuracy(model, cell, says="after more steps" if cell == LONG else "")
    size = of_width or max(map(runs.width, widest))
    number = runs.pairs(widest)[place]
    says = f"at {number} pairs"
    if of_width is not None:
        says = f"{says}, {runs.state_of(runs.of(records, cell, model, size)):,} bytes"
    if cell == LONG:
        steps = map(runs.steps, runs.of(records, cell, model, size))
        says = f"{says}, {max(steps, default=0):,} steps"
    return accuracy(model, cell, f"accuracy/{number}", says, lambda r: runs.width(r) == size)


def longest(records: Records, model: str) -> str:
    """The cell of the longest trainings that there are of a model."""
    return LONG if runs.of(records, LONG, model) else PLAIN


def compared(records: Records) -> str:
    """The cell in which trainings of equal length are compared: the longer ones where a preset has
    such, since whoever still improves says nothing of what its state holds."""
    return LONG if records and records[0].preset in runs.LONG_STEPS else PLAIN


def _gaps(records: Records) -> list[Rule]:
    first, *others = _compared_rows(records)
    return [above(first, other, 0.05) for other in others]


def _compared_rows(records: Records) -> list[Measured]:
    cell = compared(records)
    return [at_pairs(records, model, -1, cell=cell) for model in runs.COMPARED]


def trained(needed: int, cell: str) -> Ready:
    """Ready where the runs of a kind of cell had the steps without which they say nothing."""
    return where(
        lambda records: max(map(runs.steps, runs.of(records, cell)), default=needed) >= needed,
        "accuracy of trained models",
        f"asked after {needed} training steps or more",
        "laptop",
    )


def recalls_something(model: str) -> Ready:
    """No verdict on how a model falls that has not learned to recall in the first place."""

    def ready(records: Records) -> Finding | None:
        cell = longest(records, model)
        widest = runs.widest(records, cell, model)
        if not runs.pairs(widest):
            return no_runs(accuracy(model, cell).sample(records))
        fewest, at_fewest = runs.pairs(widest)[0], at_pairs(records, model, 0, cell=cell)
        rule = within(at_fewest, low=1 / fewest + BETTER_THAN_A_GUESS)
        if rule.judge(records, 0.95).verdict == REPRODUCED:
            return None
        values = at_fewest.sample(records).values
        reason = (
            f"{at_fewest.label}: {', '.join(f'{value:.3f}' for value in values) or 'no number'}, "
            f"not surely above a guess among its values ({1 / fewest:g}) after "
            f"{max(map(runs.steps, widest))} steps: what limits it here is not its state"
        )
        return Finding(UNDECIDED, reason, len(at_fewest.sample(records).observations))

    return ready


def falls(model: str) -> Rule:
    """The accuracy of a model falls from the fewest pairs to the most."""

    def rules(records: Records) -> list[Rule]:
        cell = longest(records, model)
        at_fewest, at_most = (at_pairs(records, model, place, cell=cell) for place in (0, -1))
        return [above(at_fewest, at_most, FALL)]

    return each(
        rules,
        f"accuracy falls by more than {FALL:g}; judged where it is surely {BETTER_THAN_A_GUESS:g} "
        "better than a guess at the fewest pairs",
    )


def grows_with_the_state(model: str) -> Rule:
    """A model is better at the most pairs with its largest state than with its smallest."""

    def rules(records: Records) -> list[Rule]:
        cell = longest(records, model)
        sizes = runs.widths(records, cell, model)
        large, small = (at_pairs(records, model, -1, size, cell) for size in (sizes[-1], sizes[0]))
        return [above(large, small)]

    text = (
        "accuracy at the most pairs is higher with the largest state than with the smallest; "
        f"judged where it is surely {BETTER_THAN_A_GUESS:g} better than a guess at the fewest pairs"
    )
    several = where(
        lambda records: len(runs.widths(records, longest(records, model), model)) > 1,
        "size of the state",
        "one width says nothing of it",
        "laptop",
    )
    return once(several, each(rules, text))


def _longest_rows(records: Records, model: str) -> list[Runs]:
    """The narrowest and the widest of the longest trainings: whoever is stopped early falls too."""
    cell = longest(records, model)
    sizes = runs.widths(records, cell, model)
    ends = dict.fromkeys((sizes[0], sizes[-1])) if sizes else ()
    return [at_pairs(records, model, -1, size, cell).runs for size in ends]


def _rewritten(model: str) -> Measured:
    return accuracy(model, FORGETTING, "accuracy_rewritten", "on rewritten keys")


def _in_time() -> Measured:
    memory_units = accuracy(
        "memory_mosaic", EASY, choose=lambda r: runs.steps(r) <= runs.MEMORY_STEPS
    )
    return replace(memory_units, named=f"memory units after {runs.MEMORY_STEPS} steps")


def _fixed_state(model: str) -> tuple[Claim, Claim]:
    label = runs.label(model)

    def asked(rule: Rule) -> Rule:
        return once(trained(ENOUGH_STEPS, PLAIN), once(recalls_something(model), rule))

    return (
        Claim(
            f"{label} falls with the pairs",
            f"{label} keeps a state of fixed size, so it recalls less the more pairs there are.",
            asked(falls(model)),
            source=f"{ZOOLOGY}, section 4 and figure 2",
            ranks=lambda records: _longest_rows(records, model)[-1:],
        ),
        Claim(
            f"{label} recalls more with a larger state",
            f"{label} recalls more pairs, the larger its state.",
            asked(grows_with_the_state(model)),
            source=f"{ZOOLOGY}, figure 2",
            ranks=lambda records: _longest_rows(records, model),
        ),
    )


CLAIMS = (
    Claim(
        "one layer of memory units",
        "One layer of memory units recalls every value, since values look one position ahead.",
        once(trained(runs.MEMORY_STEPS, EASY), within(_in_time(), low=ALL_RIGHT)),
        "accuracy of {low:g} or more with its whole 95 % interval within "
        f"{runs.MEMORY_STEPS} training steps at 4 pairs, 64 tokens, 32 positions",
        source=f"{MOSAICS}, section 3",
    ),
    Claim(
        "attention with a short convolution",
        "One layer of attention recalls the values once a convolution shows it neighbours.",
        once(trained(ENOUGH_STEPS, EASY), within(accuracy("conv_attention", EASY), low=ALL_RIGHT)),
        "accuracy of {low:g} or more with its whole 95 % interval, at 4 pairs, 64 tokens, 32 "
        "positions",
        source=f"{ZOOLOGY}, section 4",
    ),
    Claim(
        "no fall with a state that grows",
        "Attention with a short convolution and memory units keep every pair: they recall as "
        "well when there are many.",
        once(
            trained(ENOUGH_STEPS, PLAIN),
            each(
                lambda records: [
                    within(at_pairs(records, model, -1), low=ALL_RIGHT)
                    for model in ("conv_attention", "memory_mosaic")
                ],
                f"accuracy of {ALL_RIGHT:g} or more at the most pairs",
            ),
        ),
        source=f"{ZOOLOGY}, section 4 and figure 2; {MOSAICS}, section 3",
    ),
    Claim(
        "the gap to fixed states",
        "After the same steps attention with a short convolution recalls more of many pairs "
        "than the models with a state of fixed size.",
        once(
            trained(ENOUGH_STEPS, PLAIN),
            each(_gaps, "accuracy at the most pairs is higher by more than 0.05"),
        ),
        source=f"{ZOOLOGY}, section 4 and figure 2",
        ranks=lambda records: [row.runs for row in _compared_rows(records)],
    ),
    *(claim for model in runs.FIXED_STATE for claim in _fixed_state(model)),
    Claim(
        "rewritten keys, without order",
        "Memory units, and attention that knows positions by a convolution only, cannot tell "
        "the latest value of a key from its first: keys that are trained show no order either.",
        once(
            trained(ENOUGH_STEPS, FORGETTING),
            each(
                within(_rewritten(model), 0.4, 0.6) for model in ("memory_mosaic", "conv_attention")
            ),
        ),
        "{low:g} to {high:g} of the rewritten keys get the latest value",
        source=(
            f"our conclusion from {MOSAICS}, equation 4: kernel regression does not depend on the "
            "order of its pairs"
        ),
    ),
    Claim(
        "rewritten keys, with forgetting",
        "A memory that is corrected and forgets answers with the latest value more often than "
        "memory units do.",
        once(
            trained(ENOUGH_STEPS, FORGETTING),
            above(_rewritten("titans"), _rewritten("memory_mosaic"), 0.1),
        ),
        "accuracy on rewritten keys is higher by more than {by:g}",
        source=f"{TITANS}, equations 13 and 14",
        closed={"laptop": Closed('"Rewritten keys, with forgetting" takes 40 data seeds more')},
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{ZOOLOGY}, section 4 and figure 2; {MOSAICS}, section 3",
    CLAIMS,
    sweeps=runs.sweeps,
    records=[runs.belongs],
    panels=picture,
    variant=runs.variant,
    varied=("tasks.pairs", "tasks.rewritten", "tasks.protocol", "models.width"),
)
