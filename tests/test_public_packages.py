"""The checks of ``tests.public_packages`` against models whose faults are known."""

import json
import os
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from core.files import ROOT
from tests.public_packages import carried_state, construction, examination
from tests.public_packages.__main__ import choose, main
from tests.public_packages.agreement import agreement, spread_by_task, with_intervals
from tests.public_packages.comparing import ABSENT, NO, RAISES, UNCLEAR, YES, Comparison, guarded
from tests.public_packages.contender import Contender, Wrapped
from tests.public_packages.contenders import CONTENDERS
from tests.public_packages.page import COLUMNS, summary, write_page

VOCABULARY = 7


def recurrence(kind: str = "honest") -> Wrapped:
    """A GRU between an embedding and a matrix, with at most one fault."""
    network = nn.ModuleDict(
        {
            "embedding": nn.Embedding(VOCABULARY, 8),
            "gru": nn.GRU(8, 8, batch_first=True),
            "head": nn.Linear(8, VOCABULARY),
        }
    )
    calls = []

    def run(m: Any, tokens: Tensor) -> Tensor:
        calls.append(1)
        hidden = m["embedding"](tokens)
        if kind == "next token":
            hidden = hidden + 0.1 * hidden.roll(-1, 1)
        if kind == "length":
            hidden = hidden / tokens.shape[1]
        if kind == "batch":
            hidden = hidden - 0.1 * hidden.mean(0, keepdim=True)
        if kind == "counts calls":
            hidden = hidden * (1 + 0.01 * len(calls))
        if kind == "writes":
            tokens[:, 0] = 0
        if kind == "float32 inside":
            return m["head"](m["gru"](hidden)[0]).float().to(m["head"].weight.dtype)
        return m["head"](m["gru"](hidden)[0])

    shared: dict[str, Any] = {}

    def advance(m: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if kind == "one state for all" and state is not None:
            state = shared["state"]
        if kind == "pieces" and tokens.shape[1] > 1:
            state = None
        if kind == "batch of 2" and state is not None:
            state = state[:, :1].expand_as(state).contiguous()
        outputs, after = m["gru"](m["embedding"](tokens), state)
        if kind == "in place" and state is not None:
            state.copy_(after)
        shared["state"] = after
        return m["head"](outputs), after

    return Wrapped(network, run, advance)


def contender(kind: str = "honest", **options: Any) -> Contender:
    def build(vocabulary: int, **changes: Any) -> Wrapped:
        assert vocabulary == VOCABULARY
        if "broken" in changes:
            raise ValueError("not so")
        if changes.get("scale"):
            return Wrapped(recurrence(kind), lambda m, x: 2 * m(x))
        return recurrence(kind)

    return Contender("a test", ("a-test==1.0",), "lstm", build, **options)


@pytest.fixture
def honest() -> Wrapped:
    torch.manual_seed(0)
    return recurrence().eval()


EXAMINATIONS = {
    "next token": examination.causal_by_values,
    "length": examination.causal_by_prefixes,
    "batch": examination.batch_independent,
    "counts calls": examination.deterministic,
    "writes": examination.inputs_unchanged,
}


@pytest.mark.parametrize("kind", EXAMINATIONS)
def test_a_fault_is_found_where_it_is_and_an_honest_model_has_none(
    kind: str, honest: Wrapped
) -> None:
    torch.manual_seed(0)
    check = EXAMINATIONS[kind]
    assert check(recurrence(kind).eval(), VOCABULARY, 1).holds == NO
    assert check(honest, VOCABULARY, 1).holds == YES


def test_a_model_without_memory_is_told(honest: Wrapped) -> None:
    class OneToken(nn.Module):
        """Logits of the token at each position alone."""

        def forward(self, tokens: Tensor) -> Tensor:
            return nn.functional.one_hot(tokens, VOCABULARY).float()

    assert examination.uses_past(OneToken(), VOCABULARY, 1).holds == NO
    assert examination.uses_past(honest, VOCABULARY, 1).holds == YES


def test_states_that_go_wrong(honest: Wrapped) -> None:
    torch.manual_seed(0)
    faulty = {
        kind: recurrence(kind).eval()
        for kind in ("one state for all", "pieces", "batch of 2", "in place")
    }
    able = contender()
    assert carried_state.interleaved(faulty["one state for all"], VOCABULARY).holds == NO
    assert carried_state.several_pieces(faulty["pieces"], able, VOCABULARY).holds == NO
    assert carried_state.stepwise(faulty["pieces"], VOCABULARY, 2).holds == YES
    assert carried_state.stepwise(faulty["batch of 2"], VOCABULARY, 1).holds == YES
    assert carried_state.stepwise(faulty["batch of 2"], VOCABULARY, 2).holds == NO
    assert carried_state.used_twice(faulty["in place"], VOCABULARY).holds == NO
    assert carried_state.can_be_copied(faulty["in place"], VOCABULARY).holds == YES
    for outcome in (
        carried_state.stepwise(honest, VOCABULARY, 2),
        carried_state.after_prompts(honest, able, VOCABULARY),
        carried_state.several_pieces(honest, able, VOCABULARY),
        carried_state.interleaved(honest, VOCABULARY),
        carried_state.used_twice(honest, VOCABULARY),
    ):
        assert outcome.holds == YES
    single = contender(pieces="one")
    assert carried_state.after_prompts(honest, single, VOCABULARY).holds == ABSENT


def test_arguments_precision_and_storage() -> None:
    changes = {"scale": True, "nothing": 3, "broken": 1}
    facts = construction.arguments_without_effect(contender(changes=changes), VOCABULARY)
    assert facts["without"] == ["nothing=3"]
    assert list(facts["raises"]) == ["broken=1"]
    assert construction.works_in_float64(contender(), VOCABULARY).holds == YES
    assert construction.works_in_float64(contender("float32 inside"), VOCABULARY).holds == NO
    tied = recurrence()
    tied.network["again"] = tied.network["embedding"]  # type: ignore[index,operator]
    tied.network["unused"] = nn.Linear(2, 2)  # type: ignore[operator]
    counts = construction.parameter_counts(tied, VOCABULARY, 1)
    assert counts["without_gradient"] == ["network.unused.weight", "network.unused.bias"]
    assert counts["shared"] == [["network.embedding.weight", "network.again.weight"]]
    assert counts["by_storage"] == counts["parameters"]


def test_margins_between_rounding_and_a_leak() -> None:
    expected = torch.tensor([2.0, -1.0])
    words = []
    for distance in (1e-5, 1e-3, 1e-2, float("nan")):
        comparison = Comparison()
        comparison.add(expected + torch.tensor([0.0, distance]), expected, "")
        words.append(comparison.outcome().holds)
    assert words == [YES, UNCLEAR, NO, NO]
    assert guarded(lambda: 1 / 0).holds == RAISES  # type: ignore[arg-type,return-value]


def test_list_of_packages() -> None:
    labels = [c.label for c in CONTENDERS]
    assert len(set(labels)) == len(labels) == len({c.slug for c in CONTENDERS})
    assert len({c.package for c in CONTENDERS}) >= 15
    assert all("==" in r for c in CONTENDERS for r in c.requirements)
    assert [c.package for c in choose("[mambapy]")] == ["mambapy"]


def test_words_that_are_refused() -> None:
    from core.errors import UserError

    for word in ("packages=none-such", "limit=0", "parts=all", "speed=1"):
        with pytest.raises(UserError):
            main([word, *(["parts=behaviour"] if word.startswith("packages") else [])])


def test_page(tmp_path: Path) -> None:
    behaviour = {
        "causal_by_values/fresh/eval": {"holds": YES, "deviation": 0.0, "where": ""},
        "causal_by_prefixes/trained/eval": {"holds": NO, "deviation": 0.5, "where": "a | b"},
        "counts": {"parameters": 5, "by_storage": 4, "without_gradient": ["network.w"]},
    }
    assert summary(behaviour) == {"causal": NO}
    write_page([(contender(), {"behaviour": behaviour})], tmp_path)
    text = (tmp_path / "public_packages.md").read_text()
    assert "off by 0.5 of the largest output; trained weights, eval mode" in text
    assert "`w`" in text
    assert "a \\| b" in text
    (facts,) = json.loads((tmp_path / "public_packages.json").read_text())
    assert facts["holds"] == {"causal": NO}
    assert all(len(line.split(" | ")) == len(COLUMNS) + 1 for line in table_lines(text))


def trained(label: str, values: list[float], rival: list[float]) -> dict[str, Any]:
    def score(numbers: list[float]) -> dict[str, Any]:
        return {"values": numbers, "mean": statistics.fmean(numbers)}

    scores = {"scores/regbench": score(values), "rival_scores/regbench": score(rival)}
    return {"label": label, "rival": "lstm", "trainings": scores}


def test_a_score_is_expected_within_the_spread_of_all_models(tmp_path: Path) -> None:
    equal, apart, rival = [1.0, 1.0, 1.0], [0.5, 0.9, 0.7], [0.58, 0.6, 0.62]
    rows = [trained("a", equal, rival), trained("b", apart, rival)]
    # By hand: variances 0, 0.04 and 0.0004; the rival, which stands in both rows, counts once.
    assert spread_by_task(rows)["regbench"].variance == pytest.approx(0.0404 / 3, rel=1e-12)
    first, second = with_intervals(rows)
    pooled = stats.t(6).ppf(0.975) * (0.0404 / 3 * 2 / 3) ** 0.5
    own = stats.t(2).ppf(0.975) * (0.04 * 2 / 3) ** 0.5
    interval = first["trainings"]["scores/regbench"]["interval"]
    assert interval == pytest.approx([1 - pooled, 1.0], rel=1e-12)
    interval = first["trainings"]["rival_scores/regbench"]["interval"]
    assert interval == pytest.approx([0.6 - pooled, 0.6 + pooled], rel=1e-12)
    interval = second["trainings"]["scores/regbench"]["interval"]
    assert interval == pytest.approx([max(0.0, 0.7 - own), min(1.0, 0.7 + own)], rel=1e-12)

    there = tmp_path / "public_packages.json"
    holds = {"causal/fresh": {"holds": YES}, "counts": {"parameters": 1}}
    there.write_text(json.dumps([{**first, "behaviour": holds}, second]))
    same = agreement([{**first, "behaviour": holds}, second], there)
    assert (same.answers, same.scores, same.other_answers, same.outside) == (1, 4, [], [])
    lower = [1 - 1.1 * pooled] * 3
    (other,) = with_intervals([trained("a", lower, rival)])
    differs = agreement([{**other, "behaviour": {"causal/fresh": {"holds": NO}}}], there)
    assert differs.other_answers == ["a, causal/fresh: no, there yes"]
    (outside,) = differs.outside
    assert outside.startswith("a, scores/regbench: ")
    assert differs.sentences()[0] == "0 of 1 answers are equal"
    assert "1 of 2 scores lie in their intervals" in differs.sentences()


def test_findings_are_commands_that_install_what_they_pin() -> None:
    scripts = sorted((ROOT / "findings").glob("*.sh"))
    assert scripts
    for script in scripts:
        text = script.read_text()
        assert os.access(script, os.X_OK), script.name
        assert re.search(r"--no-deps \S+==\d", text), script.name
        assert "sys.exit(0 if" in text, script.name
        subprocess.run(["bash", "-n", script], check=True)
        compile(text.split("<<'PYTHON'\n")[1].removesuffix("PYTHON\n"), script.name, "exec")


def table_lines(text: str) -> list[str]:
    """Rows of the table of checks."""
    part = text.split("## What holds")[1].split("## ")[0]
    return [line for line in part.splitlines() if line.startswith("| ")]
