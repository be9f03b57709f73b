"""Which missing runs may decide an open claim."""

from dataclasses import replace

from bench.config.settings import Configuration
from bench.records.schema import Role
from reproduce.__main__ import reproductions
from reproduce.claims.claims import Claim, ClaimResult
from reproduce.claims.grammar import Number, Runs, within
from reproduce.claims.verdicts import UNDECIDED
from reproduce.planned import PlannedRun
from reproduce.planning.reading import reads
from reproduce.planning.survey import Review
from reproduce.request import Request
from tests.bench.records import make_record
from tests.configurations import compose

FIGURES = reproductions()
CONTEND = ("gpt2_rope", "mamba", "lstm")


def test_runs_of_another_size_and_mere_controls_decide_nothing_that_lacks_something_else() -> None:
    small, large = (
        compose(["tasks=regbench", "models=lstm", f"tasks.training_automata={n}"]) for n in (5, 9)
    )
    judged = [
        make_record(seed=n, config=small.resolved(), metrics={"test": {"accuracy": level}})
        for n, level in enumerate((0.4, 0.7))
    ]
    accuracy = Number("accuracy", "accuracy").of(Runs("the model"))
    result = Claim("it learns", "It learns.", within(accuracy, low=0.5)).judge(judged)
    passing = replace(result, claim=replace(result.claim, rule=within(accuracy, low=0.0)))
    assert result.finding.verdict == UNDECIDED
    assert result.finding.seeds

    def may(found: ClaimResult, *runs: tuple[Configuration, Role]) -> bool:
        planned = tuple(PlannedRun(one, role, f"{n}", f"{n}") for n, (one, role) in enumerate(runs))
        figure = FIGURES["figure9"]
        request = Request.of({"preset": "smoke"}, "figure9", figure)
        return Review("figure9", figure, request, (found,), planned, judged).may_decide(found)

    assert may(result, (large, "final"), (small, "final"))
    assert not may(result, (large, "final"), (large, "control"))
    assert not may(result, (small, "control"))
    assert may(passing, (small, "control"))  # it lacks nothing but its control
    assert not may(result)


def test_a_claim_waits_for_no_model_that_it_does_not_read() -> None:
    """A figure shows more models than its claims ask about."""
    words = ["tasks=mad", "tasks.synthetic=compression", "preset=laptop"]
    asked = {name: compose([*words, f"models={name}"]) for name in CONTEND}
    figure = FIGURES["mad"]
    judged = [
        make_record(
            seed=seed,
            task="mad",
            model=name,
            preset="laptop",
            role="final",
            config=asked[name].resolved(),
            metrics={"test": {"accuracy": 0.2 + 0.05 * seed}},
        )
        for name in ("gpt2_rope", "mamba")
        for seed in range(3)
    ]
    (claim,) = (c for c in figure.claims if c.name == "compression is alike")
    for name in CONTEND:
        run = PlannedRun(asked[name].model_copy(update={"seed": 3}), "final", name, name)
        assert reads(claim.judge(judged), figure, judged, [run]) == (name != "lstm"), name
