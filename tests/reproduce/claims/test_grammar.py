"""The grammar of claims: its words against the records, and its rules against its own numbers."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.schema import RunRecord
from core.statistics import COUNT, REAL, SHARE
from reproduce.bigram.bigram import EXPERIMENT
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import (
    Drawn,
    Number,
    Rule,
    Runs,
    above,
    difference,
    each,
    measured,
    once,
    setting,
    share_of,
    told,
    trained_for,
    within,
)
from reproduce.claims.verdicts import CONTRADICTED, LEVEL, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.console import join_topics, not_asked_lines, print_verdicts
from reproduce.drawing.frame import View
from reproduce.stories import figure7
from tests.bench.records import make_record
from tests.reproduce.claims.samples import sample
from tests.reproduce.plans import in_words

OURS = Runs("ours", task="regbench", model="gpt2")
THEIRS = OURS.but("theirs", model="lstm")
ACCURACY = Number("accuracy", "accuracy", REAL)


def run(seed: int, value: float, model: str = "gpt2", **changes: object) -> RunRecord:
    return make_record(
        seed=seed, model=model, label=model, metrics={"test": {"accuracy": value}}, **changes
    )


def runs(*values: float, model: str = "gpt2", **changes: object) -> list[RunRecord]:
    return [run(seed, value, model, **changes) for seed, value in enumerate(values)]


def verdict(rule: Rule, records: list[RunRecord]) -> str:
    return rule.judge(records, LEVEL).verdict


# Which runs, which number


def test_runs_are_chosen_by_what_is_said_of_them() -> None:
    deep = {"models": {"layers": 2, "width": 64}, "tasks": {}, "training": {"steps": 9}}
    two = OURS.but("two layers", {"models.layers": 2})
    records = [
        run(0, 0.5, config=deep),
        run(1, 0.5, config={**deep, "models": {"layers": 1, "width": 64}}),
        run(2, 0.5, "lstm", config=deep),
        run(3, 0.5, config=deep, task="bigram"),
        run(4, 0.5, config=deep, role="baseline"),
    ]
    assert [r.seed for r in two.of(records)] == [0]
    assert [r.seed for r in OURS.of(records)] == [0, 1]
    assert [r.seed for r in two.but("", {"models.width": 64}).of(records)] == [0]
    assert [r.seed for r in two.but("", {"models.width": 32}).of(records)] == []
    assert [r.seed for r in two.but("", model=("gpt2", "lstm")).of(records)] == [0, 2]
    assert [r.seed for r in two.but("", choose=lambda r: r.seed > 0).of(records)] == []
    assert [r.seed for r in Runs("reference", baseline="gpt2").of(records)] == [4]
    assert (two.label, two.settings) == ("two layers", {"models.layers": 2})
    assert OURS.settings == {}  # what was changed was a copy
    assert setting(records[0], "training.steps") == 9
    assert setting(records[0], "training.lr", 1.0) == 1.0


def test_a_number_knows_its_kind_and_its_items() -> None:
    provenance = make_record().provenance.model_copy(update={"data": {"test": "data"}})
    records = [
        run(seed, 0.5, per_sequence={"accuracy": [0.4, 0.6]}, provenance=provenance)
        for seed in range(2)
    ]
    found = Number("accuracy", "accuracy").of(OURS).sample(records)
    assert found.kind is SHARE
    assert found.items is not None
    assert found.items.count == 2
    assert Number("", "accuracy", COUNT).of(OURS).sample(records).kind is COUNT
    counted = Number("", "accuracy", items=lambda record: 100 + record.seed)
    stated = counted.of(OURS).sample(records).items
    assert stated is not None
    assert (stated.count, stated.variance) == (100, None)  # the same ones: of unequal, the fewest
    fresh = counted.of(OURS, fresh=True).sample(records).items
    assert fresh is not None
    assert (fresh.count, fresh.variance) == (201, 0.0)
    read = Number("", lambda record: float(record.seed)).of(OURS, "seeds").sample(records)
    assert (read.values, read.items, read.kind, read.label) == ([0.0, 1.0], None, REAL, "seeds")


def test_a_diverged_run_counts_as_it_is_told() -> None:
    lost = run(2, 0.0, outcome="diverged", cause="not finite").model_copy(update={"metrics": {}})
    records = [*runs(0.9, 0.91), lost]
    open_end = ACCURACY.of(OURS, kind=SHARE).sample(records).observations[-1]
    assert (open_end.low, open_end.high, open_end.failure) == (0, 1, "diverged (not finite)")
    bounded = ACCURACY.of(OURS, bounds=(0.2, 0.3)).sample(records).observations[-1]
    assert (bounded.low, bounded.high) == (0.2, 0.3)
    worst = ACCURACY.of(OURS, diverged=0.0).sample(records)
    assert worst.values == [0.9, 0.91, 0.0]
    assert ACCURACY.diverged is None


# Rules: text and test have the same numbers

three = [0.49, 0.5, 0.51]  # interval 0.5 ± 0.0248
HALF = 4.302653 * 0.01 / 3**0.5
edges = st.integers(1, 999).map(lambda thousandths: thousandths / 1000)


@given(edges, edges)
def test_a_changed_limit_moves_the_text_and_the_verdict(one: float, other: float) -> None:
    low, high = sorted([one, other])
    rule = within(ACCURACY.of(OURS), low, high)
    assert f"between {low:g} and {high:g}" in rule.text
    assert rule.numbers == {"low": low, "high": high}
    inside = low <= 0.5 - HALF and high >= 0.5 + HALF
    outside = low > 0.5 + HALF or high < 0.5 - HALF
    expected = REPRODUCED if inside else CONTRADICTED if outside else UNDECIDED
    assert verdict(rule, runs(*three)) == expected


@given(st.integers(-500, 500).map(lambda thousandths: thousandths / 1000))
def test_a_changed_margin_moves_the_text_and_the_verdict(by: float) -> None:
    records = runs(*three) + runs(0.3, 0.3, 0.3, model="lstm")
    rule = above(ACCURACY.of(OURS), ACCURACY.of(THEIRS), by=by)
    said = "above theirs" if by == 0 else f"{abs(by):g} {'above' if by > 0 else 'below'}"
    assert said in rule.text.replace("accuracy of ", "")
    assert rule.numbers == {"by": by}
    expected = REPRODUCED if by < 0.2 - HALF else CONTRADICTED if by > 0.2 + HALF else UNDECIDED
    assert verdict(rule, records) == expected
    back = difference(ACCURACY.of(OURS), ACCURACY.of(THEIRS), low=by)
    assert f"at least {by:g}" in back.text
    assert verdict(back, records) == expected


@given(st.integers(1, 20), st.integers(10, 95).map(lambda percent: percent / 100))
def test_a_changed_share_moves_the_text_and_the_verdict(count: int, share: float) -> None:
    rule = share_of(ACCURACY.of(OURS), at_least=share, certain=0.3)
    assert f"{share:g} of the seeds" in rule.text
    assert "more than 0.3 of all" in rule.text
    low = 0.025 ** (1 / count)  # of all of so many
    expected = REPRODUCED if low > 0.3 and count > 1 else UNDECIDED
    assert verdict(rule, runs(*[1.0] * count)) == expected
    none = CONTRADICTED if 1 - low < share and count > 1 else UNDECIDED
    assert verdict(rule, runs(*[0.0] * count)) == none


def test_words_of_a_claim_have_the_numbers_of_its_rule() -> None:
    def claim(low: float) -> Claim:
        return Claim("", "", within(ACCURACY.of(OURS), low), "{low:.0%} or more")

    assert claim(0.8).tolerance == "80% or more"
    assert claim(0.9).tolerance == "90% or more"
    # Neither of two rules with different numbers can speak for both.
    rule = each([within(ACCURACY.of(OURS), 0.8), within(ACCURACY.of(THEIRS), 0.9)])
    with pytest.raises(KeyError):
        _ = Claim("", "", rule, "{low:.0%} or more").tolerance
    same = each([within(ACCURACY.of(OURS), 0.8), within(ACCURACY.of(THEIRS), 0.8)])
    assert Claim("", "", same, "{low:.0%} or more").tolerance == "80% or more"


def test_each_corrects_the_level_and_reads_rules_from_records() -> None:
    below, good = runs(0.776, 0.78, 0.784), runs(0.9, 0.91, 0.92, model="lstm")
    one = within(ACCURACY.of(OURS), low=0.795)
    others = [within(ACCURACY.of(THEIRS), low=0.8)] * 9
    assert verdict(each([one]), below) == CONTRADICTED
    assert verdict(each([one, *others]), below + good) == UNDECIDED
    assert verdict(each(others), good) == REPRODUCED
    found = each(lambda records: [within(ACCURACY.of(THEIRS), 0.8)] if records else [], "each row")
    assert found.text == "each row"
    assert verdict(found, good) == REPRODUCED
    assert verdict(found, []) == UNDECIDED


def test_once_asks_only_where_the_runs_are_what_a_claim_speaks_about() -> None:
    rule = within(ACCURACY.of(OURS), low=0.8)
    asked = once(trained_for(100, "laptop", "trained models"), rule)
    assert (asked.text, asked.numbers) == (rule.text, rule.numbers)
    long, short = ({"tasks": {}, "models": {}, "training": {"steps": steps}} for steps in (100, 99))
    assert verdict(asked, runs(0.9, 0.91, 0.92, config=long)) == REPRODUCED
    found = asked.judge(runs(0.1, 0.1, 0.1, config=short), LEVEL)
    assert (found.verdict, found.asked_at, found.topic) == (NOT_ASKED, "laptop", "trained models")
    assert (found.seeds, found.seeds_needed) == (0, None)
    assert "100 steps" in found.evidence
    absent = once(measured(THEIRS, "rivals", "gpu"), rule)
    assert absent.judge(runs(0.9, 0.91, 0.92), LEVEL).asked_at == "gpu"
    assert verdict(absent, runs(0.9, 0.91, 0.92) + runs(0.1, model="lstm")) == REPRODUCED


def test_told_adds_words_to_evidence_and_nothing_else() -> None:
    rule = within(ACCURACY.of(OURS), low=0.8)
    spoken = told(rule, lambda r: f"{len(r)} runs: ", lambda r: "; as expected")
    records = runs(0.9, 0.91, 0.92)
    plain, more = rule.judge(records, LEVEL), spoken.judge(records, LEVEL)
    assert more.evidence == f"3 runs: {plain.evidence}; as expected"
    assert (more.verdict, more.seeds) == (plain.verdict, plain.seeds)
    unasked = told(once(measured(THEIRS, "rivals", "gpu"), rule), lambda r: "words")
    assert unasked.judge(records, LEVEL).evidence == "no runs of theirs at this preset"


def test_a_drawn_number_is_a_quantity_too() -> None:
    drawn = Drawn("trials", lambda records: sample(*np.linspace(0.49, 0.51, 5), label="trials"))
    rule = within(drawn, 0.4, 0.6)
    assert rule.text.startswith("trials between 0.4 and 0.6")
    assert verdict(rule, []) == REPRODUCED


# What a verdict file and the console say


def test_result_is_what_a_verdict_file_holds() -> None:
    rule = within(ACCURACY.of(OURS), low=0.8)
    content = (
        Claim("accuracy", "It is.", rule, source="figure 9")
        .judge(runs(0.9, 0.91, 0.92))
        .to_json(str)
    )
    assert content == {
        "name": "accuracy",
        "source": "figure 9",
        "sentence": "It is.",
        "tolerance": "accuracy of ours at least 0.8 with its whole 95 % interval",
        "verdict": REPRODUCED,
        "evidence": "ours 0.910 (95% interval 0.885 to 0.935)",
        "seeds": 3,
        "seeds_needed": None,
        "p": 0.0028,  # 0.91 is 0.11, or 0.11 / (0.01 / √3) errors, above 0.8: two-sided t, 2 df
        "effect": {
            "of": "ours minus 0.8",
            "difference": 0.11,
            "unit": "real",
            "standardised": 6.20609,  # 11 · Γ(1) / (Γ(1/2) √1): Hedges 1981 at two degrees
        },
        "frozen": None,
        "set": None,
        "after_runs": True,  # a claim that is not frozen, so that no run is surely a later one
        "confirmed": False,
    }


def test_what_is_not_asked_is_told_with_its_preset_and_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"tasks": {"source": "tiny_shakespeare", "triggers": "fixed"}, "models": {"layers": 1}}
    config["training"] = {"steps": 60}
    records = [run(seed, 0.3, task="bigram", config=config) for seed in range(3)]
    results = [claim.judge(records) for claim in EXPERIMENT.claims]
    unasked = [r for r in results if r.finding.verdict == NOT_ASKED]
    entries = [result.to_json(EXPERIMENT.cost) for result in results]
    # By hand: thirty seeds of three gradient steps and five of probes; and two rates and three
    # final runs of GPT2 with one and two layers, of memory units, and of eighteen others; GPT2 of
    # two layers and memory units with random triggers; and nine more of two layers with either.
    count = 30 + 5 + (2 + 1 + 18) * (2 + 3) + 2 * (2 + 3) + 2 * 9
    assert len(in_words(EXPERIMENT.plan("laptop", None).runs)) == 30 + 5
    at_laptop = [e for e in entries if e.get("asked_at") == "laptop"]
    assert {e["cost"] for e in at_laptop} == {f"{count} runs of 200 to 1,000 steps"}
    assert {e["verdict"] for e in at_laptop} == {NOT_ASKED}
    assert all(("cost" in e) == (e["verdict"] == NOT_ASKED) for e in entries)
    lines = not_asked_lines(EXPERIMENT, results)
    assert {line.partition("preset=")[2].partition(" ")[0] for line in lines} == {"laptop"}
    assert any("random triggers" in line and EXPERIMENT.cost("laptop") in line for line in lines)
    # Claims that ask for different presets have a line each.
    open_claims = [claim.judge([]) for claim in figure7.EXPERIMENT.claims]
    of_both = not_asked_lines(figure7.EXPERIMENT, open_claims)
    shown_presets = {line.partition("preset=")[2].partition(" ")[0] for line in of_both}
    assert {"gpu", "paper"} <= shown_presets
    print_verdicts("bigram", EXPERIMENT, results, records, View("smoke"), tmp_path, tmp_path)
    shown = capsys.readouterr().out
    for line in lines:
        assert line in shown
    undecided = sum(r.finding.verdict == UNDECIDED for r in results)
    summary = f"{undecided} {UNDECIDED} ({len(unasked)} not asked here)"
    assert summary in shown
    assert all(result.claim.sentence not in shown for result in unasked)


def test_what_is_not_asked_is_grey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    rule = once(measured(THEIRS, "N = 500", "gpu"), within(ACCURACY.of(OURS), low=0.8))
    results = [Claim("", "It is.", rule).judge(runs(0.9))]
    with redirect_stdout(io.StringIO()) as written:
        print_verdicts("bigram", EXPERIMENT, results, [], View("smoke"), tmp_path, tmp_path)
    [line] = [text for text in written.getvalue().splitlines() if "N = 500" in text]
    assert line.startswith("\x1b[90m")  # bright black
    assert all(colour not in line for colour in ("\x1b[31m", "\x1b[32m", "\x1b[33m"))


def test_topics_are_told_once_and_values_of_one_quantity_together() -> None:
    topics = ["N = 500", "rivals", "N = 1,000", "N = 500"]
    assert join_topics(topics) == "N = 500, 1,000; rivals"
