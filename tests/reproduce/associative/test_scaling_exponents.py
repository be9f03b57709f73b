"""Exponents by α, on constructed errors whose laws are known."""

import numpy as np

from bench.records.schema import Curve, RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.scaling_laws import scaling_laws
from reproduce.scaling_laws.runs import ALPHAS, LAWS
from reproduce.scaling_laws.scaling_exponents import EXPERIMENT, TOKENS
from tests.bench.records import make_record
from tests.reproduce.associative.constructed import measured, planned, verdicts
from tests.reproduce.drawing.rendering import rendered


def runs(turned: float = 1.0) -> list[RunRecord]:
    """Errors as in theory, with slopes that are ``turned`` times as steep."""
    records = []
    for run in planned(EXPERIMENT):
        tasks, scheme = run.resolved()["tasks"], run.resolved()["models"]["scheme"]
        d, alpha = np.array(tasks["dimensions"], float), tasks["alpha"]
        law = {"frequency": LAWS["frequency"], "threshold": LAWS["threshold"]}.get(scheme)
        noise = np.random.default_rng(int(10 * alpha)).standard_normal((tasks["trials"], len(d)))
        in_d = d ** (turned * law(alpha)) if law else np.ones(len(d))
        arrays = {"errors/population": (0.5 * in_d * np.exp(0.05 * noise)).tolist()}
        for n in tasks["samples"]:
            level = 0.5 * n ** (turned * (1 - alpha) / alpha)
            arrays[f"errors/n={n}"] = (level * np.exp(0.05 * noise)).tolist()
        records.append(measured(run, {"error": 0.1}, arrays))
    return records


def tables(turned: float = 1.0) -> list[RunRecord]:
    made = []
    for alpha in ALPHAS:
        n = [10.0, 100.0, 1000.0]
        mass = Curve(x=n, y=[x ** (turned * (1 - alpha) / alpha) for x in n])
        tasks = {"alpha": alpha, "tokens": TOKENS, "fit_samples": [10, 1000]}
        record = make_record(
            task="scaling_laws",
            model="infinite_memory",
            label="infinite_memory",
            role="baseline",
            preset="laptop",
            identity=f"{int(10 * alpha):064d}",
            config={"tasks": tasks},
            curves={"unseen_mass": mass, "error": mass},
        )
        made.append(record)
    return made


def test_memories_as_in_theory_reproduce_every_claim_and_other_laws_contradict() -> None:
    assert set(verdicts(EXPERIMENT, [*runs(), *tables()]).values()) == {REPRODUCED}
    steep = verdicts(EXPERIMENT, [*runs(2), *tables(2)])
    assert {name for name, verdict in steep.items() if verdict != CONTRADICTED} == {
        "frequency is steeper where the Zipf law is"
    }
    assert verdicts(EXPERIMENT, runs(0.3))["frequency is steeper where the Zipf law is"] in (
        CONTRADICTED,
        UNDECIDED,
    )


def test_one_exponent_for_all_α_is_told_from_the_law() -> None:
    """A memory whose error falls as at α = 2, whatever α is."""
    alike = []
    for record in runs():
        d = np.array(record.config["tasks"]["dimensions"], float)
        noise = np.random.default_rng(0).standard_normal((60, len(d)))
        scheme = record.config["models"]["scheme"]
        law = LAWS["threshold" if scheme == "threshold" else "frequency"](2.0)
        errors = (0.5 * d**law * np.exp(0.02 * noise)).tolist()
        alike.append(record.model_copy(update={"arrays": {"errors/population": errors}}))
    found = verdicts(EXPERIMENT, alike)
    for alpha in ("1.5", "2.5", "3"):
        assert found[f"the most frequent against d, α = {alpha}"] == CONTRADICTED
    assert found["frequency against d, α = 3"] == CONTRADICTED
    assert found["frequency is steeper where the Zipf law is"] == CONTRADICTED


def test_the_figure_for_one_α_has_none_of_these_runs() -> None:
    records = [*runs(), *tables()]
    assert scaling_laws.EXPERIMENT.select(records) == []
    assert len(EXPERIMENT.select(records)) == 12
    drawn = EXPERIMENT.draw(EXPERIMENT.select(records))
    assert rendered(drawn)
    assert {trace.name for trace in drawn.panels[0].traces} >= {"by frequency (q = p)"}
    assert set(verdicts(EXPERIMENT, []).values()) == {NOT_ASKED}
