"""Memory in the loop: does a language model answer by what a memory recalls, and only by it?"""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Measured, Number, Rule, Runs, above, each, within
from reproduce.drawing.plots import Plot, by_metric, curves
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis

TITLE = "Memory in the loop: answers before and after, and the use of wrong notes"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
TASK = "memory_in_the_loop"
MODELS = ("kernel", "outer_product", "ridge", "delta_rule")
FIRST = 1  # seed of the runs, and of what the language model is trained with
# Four times those of the task. After 300 steps one of three language models answered every note
# with "I don't know", and another used every note, whatever its confidence.
STEPS = 1200
SEEDS = {"smoke": 1, "laptop": 4, "gpu": 4, "paper": 4}
CONDITIONS = {
    0: ("before", "accuracy_before"),
    1: ("after", "accuracy_after"),
    2: ("after, confidence", "accuracy_after_confidence"),
    3: ("never written", "accuracy_unseen"),
}
USE = {
    0: ("right", "used_seen"),
    1: ("right, confidence", "used_seen_confidence"),
    2: ("wrong", "used_unseen"),
    3: ("wrong, confidence", "used_unseen_confidence"),
}


def answered_locally(record: RunRecord) -> bool:
    """Whether the small language model answered, not a server, once it was trained long enough;
    seed 0 was run before there was a claim."""
    tasks = record.config["tasks"]
    local = tasks["answerer"] == "local" and tasks["data_seed"] >= FIRST
    return local and int(tasks["training_steps"]) >= STEPS


def of(model: str) -> Runs:
    """The runs with a memory."""
    return Runs(label(model), TASK, model, choose=answered_locally)


def questions(record: RunRecord) -> int:
    """How many questions one condition asks."""
    return int(record.config["tasks"]["trials"] * record.config["tasks"]["items"])


def share(metric: str, model: str) -> Measured:
    """The share of the answers that are right, or that are the note."""
    name = metric.replace("_", " ")
    number = Number(name, metric, items=questions, fresh=True)
    return number.of(of(model), f"{label(model)}, {name}")


ALL = tuple(map(of, MODELS))
IGNORANT, GAIN, LESS = 0.05, 0.5, 0.5


def after(metric: str) -> Rule:
    """Hardly any answer is right before, and many more are in a condition, with each memory."""
    rules = []
    for model in MODELS:
        before = share("accuracy_before", model)
        rules += [within(before, high=IGNORANT), above(share(metric, model), before, GAIN)]
    return each(rules)


def lowered(part: str) -> Rule:
    """Notes are used less often where their confidence is shown, with each memory."""
    return each(
        above(share(f"used_{part}", model), share(f"used_{part}_confidence", model), LESS)
        for model in MODELS
    )


CLAIMS = (
    Claim(
        "answers come from the memory",
        "Asked before a sequence is memorised, the language model does not know its last number; "
        "with what the memory recalls in its prompt it does, after 1,200 steps of its training.",
        after("accuracy_after"),
        source=f"{README}, initial tests: the script queries the LLM twice",
        control=Control("notes on sequences that were never written", after("accuracy_unseen")),
    ),
    Claim(
        "a shown confidence lowers the use of wrong notes",
        "With a confidence beside what the memory recalls, the language model can decide how much "
        "to weigh it: after 1,200 steps of its training it uses far fewer of the wrong notes.",
        lowered("unseen"),
        source=f"{README}, next steps: some kind of confidence score",
        control=Control("right notes", lowered("seen")),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{README}, initial tests and next steps",
    CLAIMS,
    runs=[
        OverSeeds(
            TASK,
            MODELS,
            {"tasks.training_steps": STEPS},
            seeds=SEEDS,
            first_seed=FIRST,
            own_data=True,
        )
    ],
    records=ALL,
    panels=[
        Plot(
            "right answers",
            Axis(categories=[name for name, _ in CONDITIONS.values()]),
            Axis("share", limits=(-0.03, 1.05)),
            [by_metric({place: metric for place, (_, metric) in CONDITIONS.items()}, ALL)],
            legend="best",
        ),
        Plot(
            "notes that are used",
            Axis(categories=[name for name, _ in USE.values()]),
            Axis("share", limits=(-0.03, 1.05)),
            [by_metric({place: metric for place, (_, metric) in USE.items()}, ALL)],
        ),
        Plot(
            "use by confidence",
            Axis("confidence that is shown"),
            Axis("share used", limits=(-0.03, 1.05)),
            [curves("used_by_confidence", ALL)],
        ),
    ],
    layout={"width": 13},
    control=EACH_ITS_OWN,
)
