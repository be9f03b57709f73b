"""Tables 4 and 5 on constructed runs whose verdicts are known."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt

from bench.records.schema import RunRecord, write_record
from core.errors import OK, UserError
from core.statistics import paired_items
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding
from reproduce.command import main
from reproduce.experiment import Experiment
from reproduce.prompts import table4, table5
from reproduce.prompts import tables as prompts
from reproduce.regbench.regbench import MOSAIC
from tasks.story_prompts.judge import GROUPS, read_prompts, shares
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

PROMPTS = read_prompts()
GPT2 = "gpt2"
CORPUS = {"train": {"corpus": "grammar", "tokens_sha256": "ab" * 32, "tokenizer": "grammar"}}


def run(
    model: str, seed: int, passed: int, layers: int = 4, outcome: str = "ok", **changes: Any
) -> RunRecord:
    """A run whose continuations of the first ``passed`` prompts are sensible, in an order that
    takes one of each group after the other."""
    ordered = sorted(range(24), key=lambda i: (i % 9 if i < 18 else (i - 18) * 1.5, i))
    right = [float(i in ordered[:passed]) for i in range(24)]
    rows = [
        {"prompt": p.text, "group": p.group, "text": f"a|b {seed}", "sensible": bool(ok)}
        for p, ok in zip(PROMPTS, right, strict=True)
    ]
    content: dict[str, Any] = {
        "task": "story_prompts",
        "model": model,
        "label": {GPT2: "GPT2", MOSAIC: "Memory Mosaic"}.get(model, model),
        "seed": seed,
        "identity": hashlib.sha256(f"{model}{layers}".encode()).hexdigest(),
        "outcome": outcome,
        "config": {
            "tasks": {"corpus": "grammar"},
            "models": {"layers": layers},
            "training": {"restarts": 1},
        },
        "metrics": {"test": shares(right, PROMPTS)},
        "arrays": {"corpus": CORPUS, "continuations": rows},
        "per_sequence": {"sensible": right},
    }
    lost = {"metrics": {}, "arrays": {}, "cause": "the loss is not finite at step 7"}
    record = make_record(**{**content, **({} if outcome == "ok" else lost), **changes})
    provenance = record.provenance.model_copy(update={"data": {"test": "cd" * 32}})
    return record.model_copy(update={"provenance": provenance})


def runs(model: str, *passed: int, layers: int = 4) -> list[RunRecord]:
    return [run(model, seed, number, layers) for seed, number in enumerate(passed)]


def other_stories(level: float = 0.04) -> RunRecord:
    """The predictor that says what chance gives."""
    found = {"sensible": level, **{f"sensible_{group}": level for group in GROUPS}}
    record = run("another_story", 0, 0)
    changes = {
        "role": "baseline",
        "label": "another story",
        "metrics": {"test": found},
        "per_sequence": {"sensible": [level] * 24},
        "config": {"tasks": {"corpus": "grammar"}},
    }
    return record.model_copy(update=changes)


def judge(reproduction: Experiment, records: list[RunRecord]) -> dict[str, Finding]:
    return {claim.name: claim.without_control(records) for claim in reproduction.claims}


def test_table_4_as_published() -> None:
    found = judge(table4.EXPERIMENT, [*runs(GPT2, 20, 18, 19), *runs(MOSAIC, 18, 20, 19)])
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    assert all("corpus: grammar" in finding.evidence for finding in found.values())


@pytest.mark.parametrize(
    ("transformer", "mosaic", "verdict", "constraints"),
    [
        ((20, 20, 21), (9, 10, 9), CONTRADICTED, CONTRADICTED),
        ((16, 16, 15), (22, 23, 22), UNDECIDED, REPRODUCED),  # better is not alike
        ((12, 12, 11), (22, 23, 22), CONTRADICTED, UNDECIDED),  # than a rival that may be poor
        ((20, 12, 22), (12, 22, 17), UNDECIDED, UNDECIDED),
        ((2, 2, 3), (2, 3, 2), UNDECIDED, UNDECIDED),  # alike, since both fail
        ((20,), (20,), UNDECIDED, UNDECIDED),  # one seed says nothing about the spread
    ],
)
def test_table_4_otherwise(
    transformer: tuple[int, ...], mosaic: tuple[int, ...], verdict: str, constraints: str
) -> None:
    found = judge(table4.EXPERIMENT, [*runs(GPT2, *transformer), *runs(MOSAIC, *mosaic)])
    assert found["as good as the transformer"].verdict == verdict
    assert found["narrative constraints"].verdict == constraints


def test_to_fail_alike_shows_nothing_and_says_so() -> None:
    finding = judge(table4.EXPERIMENT, [*runs(GPT2, 2, 2, 3), *runs(MOSAIC, 2, 3, 2)])
    evidence = finding["as good as the transformer"].evidence
    assert "GPT2 is not surely above 0.417, and to fail alike shows nothing" in evidence


def test_table_5_as_published() -> None:
    deep = [*runs(GPT2, 20, 20, 19), *runs(MOSAIC, 19, 19, 20)]
    one = [*runs(GPT2, 4, 4, 4, layers=1), *runs(MOSAIC, 6, 6, 7, layers=1)]
    found = judge(table5.EXPERIMENT, [*deep, *one, other_stories()])
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    # A transformer that needs no depth, and a Mosaic that falls behind.
    strong = [*runs(GPT2, 20, 20, 20, layers=1), *runs(MOSAIC, 6, 6, 7, layers=1)]
    found = judge(table5.EXPERIMENT, [*deep, *strong, other_stories()])
    assert found["one block is too few"].verdict == UNDECIDED
    assert found["one block, the Mosaic not behind"].verdict == CONTRADICTED
    weak = [*runs(GPT2, 12, 12, 11), *runs(MOSAIC, 19, 19, 20)]
    stronger = [*runs(GPT2, 24, 24, 23, layers=1), *runs(MOSAIC, 6, 6, 7, layers=1)]
    found = judge(table5.EXPERIMENT, [*weak, *stronger, other_stories()])
    assert found["one block is too few"].verdict == CONTRADICTED


@pytest.mark.parametrize("level", [0.04, None])
def test_models_of_one_block_that_pass_nothing_show_nothing(level: float | None) -> None:
    one = [*runs(GPT2, 0, 0, 0, layers=1), *runs(MOSAIC, 0, 0, 0, layers=1)]
    predictors = [] if level is None else [other_stories(level)]
    found = judge(table5.EXPERIMENT, [*one, *predictors])
    assert found["one block, the Mosaic not behind"].verdict == UNDECIDED
    assert found["one block is too few"].verdict == UNDECIDED  # no deep runs


def test_seeds_that_agree_say_nothing_about_other_prompts() -> None:
    # Each model gives the same count with every seed, which is no interval of zero width.
    behind = judge(table4.EXPERIMENT, [*runs(GPT2, 20, 20, 20), *runs(MOSAIC, 18, 18, 18)])
    finding = behind["as good as the transformer"]
    assert finding.verdict == UNDECIDED
    assert "over seeds and 24 prompts -0.20" in finding.evidence  # 2 of 24: ±0.119
    assert finding.seeds_needed is None  # more seeds are no more prompts
    assert "15 prompts" in behind["narrative constraints"].evidence
    # Not even where they agree on every single prompt.
    same = judge(table4.EXPERIMENT, [*runs(GPT2, 20, 20, 20), *runs(MOSAIC, 20, 20, 20)])
    assert {finding.verdict for finding in same.values()} == {UNDECIDED}
    assert "difference +0.000 (95% interval" in same["as good as the transformer"].evidence


def test_the_spread_over_prompts_is_that_of_a_bootstrap() -> None:
    records = [*runs(GPT2, 20, 12, 17), *runs(MOSAIC, 9, 13, 2)]
    for groups in ((), ("reasoning", "consistency")):
        of = [prompts.sensible(prompts.of(m, shallow=False), *groups) for m in (MOSAIC, GPT2)]
        samples = [one.sample(records) for one in of]
        found = paired_items(samples[0].items, samples[1].items)
        rows = [i for i, p in enumerate(PROMPTS) if not groups or p.group in groups]
        passed = np.array([r.per_sequence["sensible"] for r in records])[:, rows]
        assert samples[1].values == pytest.approx(passed[:3].mean(axis=1))
        difference = passed[3:].mean(axis=0) - passed[:3].mean(axis=0)
        drawn = np.random.default_rng(0).integers(len(rows), size=(20_000, len(rows)))
        bootstrap = np.var(difference[drawn].mean(axis=1)) * len(rows) / (len(rows) - 1)
        assert found is not None
        assert (found.count, found.name) == (len(rows), "prompts")
        assert found.variance == pytest.approx(bootstrap, rel=0.05)
    lost = prompts.sensible(prompts.of(GPT2, shallow=False)).sample(
        [run(GPT2, 0, 3, outcome="diverged")]
    )
    assert (lost.values, lost.items) == ([], None)


def test_a_failed_run_supports_no_claim() -> None:
    transformer = runs(GPT2, 20, 18, 19)
    whole = [*transformer, *runs(MOSAIC, 20, 18, 20, 18, 20)]
    assert judge(table4.EXPERIMENT, whole)["narrative constraints"].verdict == REPRODUCED
    for outcome in ("diverged", "out_of_memory"):
        records = [*whole, run(MOSAIC, 7, 0, outcome=outcome)]
        for finding in judge(table4.EXPERIMENT, records).values():
            assert finding.verdict != REPRODUCED
            assert "Memory Mosaic seed 7" in finding.evidence


def test_shares_are_those_of_the_task() -> None:
    record = run(GPT2, 0, 13)
    task = record.metrics["test"]
    for group in prompts.GROUPS:
        found = prompts.on(record, group).metrics["test"]["sensible"]
        assert found == pytest.approx(task[f"sensible_{group}"])
    assert prompts.on(record).metrics["test"]["sensible"] == pytest.approx(task["sensible"])
    both = (9 * task["sensible_reasoning"] + 6 * task["sensible_consistency"]) / 15
    found = prompts.on(record, "reasoning", "consistency").metrics["test"]["sensible"]
    assert found == pytest.approx(both)
    assert tuple(prompt.group for prompt in PROMPTS) == prompts.GROUP_OF


def test_each_table_takes_its_depths_and_no_mixture(tmp_path: Path) -> None:
    deep, one = run(GPT2, 0, 20), run(GPT2, 0, 4, layers=1)
    others = [run("lstm", 0, 9), run(GPT2, 0, 20, task="babistories")]
    everything = [deep, one, other_stories(), *others]
    assert {r.run_id for r in table4.EXPERIMENT.select(everything)} == {
        deep.run_id,
        other_stories().run_id,
    }
    assert len(table5.EXPERIMENT.select(everything)) == 3
    for record in (deep, run(GPT2, 0, 20, layers=8)):
        write_record(record, tmp_path / "records")
    words = [f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    figures = {"table4": table4.EXPERIMENT, "table5": table5.EXPERIMENT}
    for name in figures:
        with pytest.raises(UserError, match="different settings or code"):
            main([name, *words], figures)


def test_plans_share_the_deep_runs() -> None:
    for preset in ("smoke", "paper"):
        four, five = table4.EXPERIMENT.plan(preset, 2), table5.EXPERIMENT.plan(preset, 2)
        assert len(in_words(four.runs)) == 4
        assert set(in_words(four.runs)) < set(in_words(five.runs))
        assert len(in_words(five.runs)) == 8
        assert in_words(four.baselines) == in_words(five.baselines)
        assert ("models.layers=18" in in_words(four.runs)[0]) == (preset == "paper")
    assert len(in_words(table4.EXPERIMENT.plan("smoke", None).runs)) == 6
    four, five = (table.EXPERIMENT.plan("laptop", None) for table in (table4, table5))
    assert set(in_words(four.sweeps)) < set(in_words(five.sweeps))
    assert in_words(four.runs) == in_words(five.runs) == ()


def test_the_table_shows_texts_and_counts() -> None:
    records = [*runs(GPT2, 20, 19), run(MOSAIC, 1, 5), run(MOSAIC, 0, 0, outcome="diverged")]
    table = table4.EXPERIMENT.table
    assert table is not None
    text = table([*records, other_stories()])
    rows: list[list[str]] = []
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(token.content)
    lines = {row[0]: row[1:] for row in rows}
    transformer, mosaic = records[:2], records[2]
    counts = [
        ", ".join(f"{sum(r.per_sequence['sensible'][a:b]):.0f}" for r in transformer)
        for a, b in ((0, 9), (9, 18), (18, 24), (0, 24))
    ]
    assert lines["GPT2, 4 blocks, seeds 0, 1"] == counts
    assert lines["Memory Mosaic, 4 blocks, seeds 0, 1"][-1] == "✗, 5"
    assert lines["GPT2, 18 blocks, published"] == ["8", "6", "6", "20"]
    assert lines["sentences of other stories, on average"][-1] == "1.0"
    assert lines["prompt"] == ["GPT2, 4 blocks, seed 0", "Memory Mosaic, 4 blocks, seed 1"]
    for number, prompt in enumerate(PROMPTS):
        passed = sum(r.per_sequence["sensible"][number] for r in transformer)
        first = transformer[0].per_sequence["sensible"][number]
        own = mosaic.per_sequence["sensible"][number]
        assert lines[prompt.text] == [
            f"a|b 0 {'✓' if first else '✗'} ({passed:.0f}/2 seeds)",
            f"a|b 1 {'✓' if own else '✗'} ({own:.0f}/1 seeds)",
        ]
    assert "No run has continuations" in table([other_stories()])


@pytest.mark.parametrize("reproduction", [table4.EXPERIMENT, table5.EXPERIMENT])
def test_the_picture_shows_shares_by_group(reproduction: Experiment) -> None:
    transformer, lost = runs(GPT2, 20, 19), run(MOSAIC, 3, 0, outcome="diverged")
    records = [*transformer, *runs(MOSAIC, 19), lost, other_stories()]
    panels = reproduction.panels
    assert panels is not None
    picture = panels(records)
    assert picture == panels(records[::-1])
    assert rendered(picture) == panels(records).to_json()
    panel = picture.panels[-1]
    assert panel.title == "4 blocks (published: 18 blocks)"
    traces = {trace.name: trace for trace in panel.traces}
    for run_, values in zip(transformer, traces["GPT2"].seeds.values(), strict=True):
        shares_ = run_.metrics["test"]
        names = ["sensible_factual", "sensible_reasoning", "sensible_consistency", "sensible"]
        assert values == pytest.approx([shares_[name] for name in names])
    assert traces["Memory Mosaic"].failed == (0, 1, 2, 3)
    published = (8 / 9, 6 / 9, 6 / 6, 20 / 24)
    assert traces["GPT2, published"].y == pytest.approx(published)
    assert traces["sentences of other stories"].y == pytest.approx((0.04,) * 4)
    assert rendered(panels([]))


def test_files_from_records_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for record in [*runs(GPT2, 20, 20), *runs(MOSAIC, 20, 19), other_stories()]:
        write_record(record, tmp_path / "records")
    words = ["table4", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, {"table4": table4.EXPERIMENT}) == OK
    folder = tmp_path / "reproductions" / "table4" / "smoke"
    assert {"figure.png", "table.md", "verdicts.json"} <= {p.name for p in folder.iterdir()}
    assert "Both models continue the 24 prompts about equally well." in capsys.readouterr().out
