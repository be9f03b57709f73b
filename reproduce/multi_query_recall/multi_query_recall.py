"""Multi-query recall against the number of pairs and the size of the state, and with keys that are
written again."""

from __future__ import annotations

from judging.claims import Claim
from judging.grammar import (
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
    within,
)
from judging.verdicts import REPRODUCED, UNDECIDED, Finding, no_runs, not_asked
from reproduce.multi_query_recall.figure import TITLE, panels
from reproduce.multi_query_recall.runs import (
    EASY,
    FIXED_STATE,
    FORGETTING,
    LABELS,
    MEMORY_STEPS,
    PLAIN,
    kind,
    of,
    pairs,
    plan,
    select,
    state_of,
    steps,
    variant,
    widest,
    width,
    widths,
)
from reproduce.reproduction import Reproduction

ZOOLOGY = "Arora et al. 2023, Zoology (arXiv 2312.04927)"
MOSAICS = "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394)"
TITANS = "Behrouz et al. 2025, Titans (arXiv 2501.00663)"
ENOUGH_STEPS = 400
ALL_RIGHT = 0.99
BETTER_THAN_A_GUESS = 0.2
FALL = 0.1


def accuracy(model: str, cell: str, name: str = "accuracy", says: str = "") -> Measured:
    """A metric of a model's runs in a kind of cell; ``says`` follows its label."""
    runs = Runs(LABELS[model], model=model, choose=lambda record: kind(record) == cell)
    number = Number("accuracy", name, items=lambda record: int(setting(record, "tasks.test_size")))
    return number.of(runs, f"{LABELS[model]} {says}".rstrip())


def at_pairs(records: Records, model: str, place: int, of_width: int | None = None) -> Measured:
    """The accuracy at the fewest (0) or the most (-1) pairs, at the largest width."""
    found = widest(records, PLAIN, model)
    size = of_width or max(map(width, found), default=0)
    number = (pairs(found) or [0])[place]
    says = f"at {number} pairs"
    if of_width is not None:
        says = f"{says}, {state_of(of(records, PLAIN, model, size)):,} bytes"
    one = accuracy(model, PLAIN, f"accuracy/{number}", says)
    choose = lambda record: kind(record) == PLAIN and width(record) == size  # noqa: E731
    return Measured(one.number, one.runs.but(one.runs.label, choose=choose), one.named)


def trained(needed: int, cell: str) -> Ready:
    """Ready where the runs of a kind of cell had the steps without which they say nothing."""

    def ready(records: Records) -> Finding | None:
        found = [steps(record) for record in of(records, cell)]
        if found and max(found) < needed:
            reason = f"asked after {needed} training steps or more"
            return not_asked("accuracy of trained models", reason, "laptop")
        return None

    return ready


def recalls_something(model: str) -> Ready:
    """No verdict on how a model falls that has not learned to recall in the first place."""

    def ready(records: Records) -> Finding | None:
        found = widest(records, PLAIN, model)
        if not pairs(found):
            return no_runs(accuracy(model, PLAIN).sample(records))
        fewest, one = pairs(found)[0], at_pairs(records, model, 0)
        rule = within(one, low=1 / fewest + BETTER_THAN_A_GUESS)
        if rule.judge(records, 0.95).verdict == REPRODUCED:
            return None
        values = one.sample(records).values
        reason = (
            f"{one.label}: {', '.join(f'{value:.3f}' for value in values) or 'no number'}, not "
            f"surely above a guess among its values ({1 / fewest:g}) after "
            f"{max(map(steps, found))} steps: what limits it here is not its state"
        )
        return Finding(UNDECIDED, reason, len(one.sample(records).observations))

    return ready


def falls(model: str) -> Rule:
    """The accuracy of a model falls from the fewest pairs to the most."""
    return each(
        lambda records: [above(at_pairs(records, model, 0), at_pairs(records, model, -1), FALL)],
        f"accuracy falls by more than {FALL:g}; judged where it is surely {BETTER_THAN_A_GUESS:g} "
        "better than a guess at the fewest pairs",
    )


def grows_with_the_state(model: str) -> Rule:
    """A model is better at the most pairs with its largest state than with its smallest."""

    def rules(records: Records) -> list[Rule]:
        sizes = widths(records, PLAIN, model)
        large, small = (at_pairs(records, model, -1, size) for size in (sizes[-1], sizes[0]))
        return [above(large, small)]

    text = (
        "accuracy at the most pairs is higher with the largest state than with the smallest; "
        f"judged where it is surely {BETTER_THAN_A_GUESS:g} better than a guess at the fewest pairs"
    )
    return once(_several_widths(model), each(rules, text))


def _several_widths(model: str) -> Ready:
    def ready(records: Records) -> Finding | None:
        if len(widths(records, PLAIN, model)) > 1:
            return None
        return not_asked("size of the state", "one width says nothing of it", "laptop")

    return ready


def _rewritten(model: str) -> Measured:
    return accuracy(model, FORGETTING, "accuracy_rewritten", "on rewritten keys")


def _in_time() -> Measured:
    runs = accuracy("memory_mosaic", EASY)
    choose = lambda r: kind(r) == EASY and steps(r) <= MEMORY_STEPS  # noqa: E731
    label = f"memory units after {MEMORY_STEPS} steps"
    return Measured(runs.number, runs.runs.but(label, choose=choose))


def _fixed_state(model: str) -> tuple[Claim, Claim]:
    label = LABELS[model]

    def asked(rule: Rule) -> Rule:
        return once(trained(ENOUGH_STEPS, PLAIN), once(recalls_something(model), rule))

    return (
        Claim(
            f"{label} falls with the pairs",
            f"{label} keeps a state of fixed size, so it recalls less the more pairs there are.",
            asked(falls(model)),
            source=f"{ZOOLOGY}, section 4 and figure 2",
        ),
        Claim(
            f"{label} recalls more with a larger state",
            f"{label} recalls more pairs, the larger its state.",
            asked(grows_with_the_state(model)),
            source=f"{ZOOLOGY}, figure 2",
        ),
    )


CLAIMS = (
    Claim(
        "one layer of memory units",
        "One layer of memory units recalls every value, since values look one position ahead.",
        once(trained(MEMORY_STEPS, EASY), within(_in_time(), low=ALL_RIGHT)),
        "accuracy of {low:g} or more with its whole 95 % interval within "
        f"{MEMORY_STEPS} training steps at 4 pairs, 64 tokens, 32 positions",
        source=f"{MOSAICS}, section 4",
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
            each(
                lambda records: [
                    above(at_pairs(records, "conv_attention", -1), at_pairs(records, m, -1), 0.05)
                    for m in FIXED_STATE
                ],
                "accuracy at the most pairs is higher by more than 0.05",
            ),
        ),
        source=f"{ZOOLOGY}, section 4 and figure 2",
    ),
    *(claim for model in FIXED_STATE for claim in _fixed_state(model)),
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
    ),
)

SOURCE = f"{ZOOLOGY}, section 4 and figure 2; {MOSAICS}, sections 3 and 4"
VARIED = ("tasks.pairs", "tasks.rewritten", "tasks.protocol", "models.width", "training.lr")
REPRODUCTION = Reproduction(TITLE, SOURCE, plan, select, CLAIMS, panels, variant, varied=VARIED)
