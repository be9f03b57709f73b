"""Figures 14, 15 and 16 on constructed attention whose numbers and verdicts are known."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.config.settings import Configuration
from bench.records.schema import Curve, RunRecord
from bench.search.plan import plan_sweep
from core.errors import OK, UserError
from reproduce.attention import figure14, figure15, figure16, heads
from reproduce.attention.runs import ALIBI, LABELS, LEARNED, MOSAIC, ROPE, kind_of
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding
from reproduce.command import main
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Picture, Trace
from tasks.attention.task import first_position, unevenness
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

LENGTH, EXTENSION = 64, 3
RECENT = 6.0  # times the level: a head that attends nowhere is not judged
COEFFICIENTS = [0.1, 0.25, 0.4, 0.55]
Curves = NDArray[np.float64]


def distances(time: int) -> Curves:
    return np.arange(time - 1, -1, -1.0)


def normalised(curves: Curves) -> Curves:
    return curves / curves.sum(axis=-1, keepdims=True)


def published(kind: str, time: int) -> Curves:
    """Four heads as the paper describes them, (heads, time)."""
    far = distances(time)
    ones = np.ones((len(COEFFICIENTS), time))
    if kind == MOSAIC:
        curves = np.stack([1 + 20 * c**far / c for c in COEFFICIENTS])
        curves[:, -1] = 0
    elif kind == LEARNED:
        curves = ones * (1 + 0.5 * np.sin(7.0 * np.arange(time)))
        curves[:, 0] = 12
    elif kind == ROPE:  # each head may go up or down
        change = np.array([3, 1 / 3, 2, 1 / 2])[:, None]
        curves = np.where(far >= LENGTH, change, ones)
        curves[:, -1] = RECENT
    else:
        curves = np.exp(-far / 20) * ones
    return normalised(curves)


def opposite(kind: str, time: int) -> Curves:
    """What contradicts every claim on this kind."""
    far = distances(time)
    ones = np.ones((len(COEFFICIENTS), time))
    if kind == MOSAIC:  # a sink, no peak, twice as much beyond the training length
        curves = np.where(far >= LENGTH, 2, ones) * (1 + 0.6 * np.sin(7.0 * np.arange(time)))
        curves[:, 0] = 12
        curves[:, -2] = 1 / 2
        return normalised(curves)
    ones[:, -1] = RECENT
    return normalised(ones)


def run(
    kind: str, seed: int, form: Any = published, outcome: str = "ok", **changes: Any
) -> RunRecord:
    model = "memory_mosaic" if kind == MOSAIC else "gpt2"
    lengths = {"trained": LENGTH} if kind == LEARNED else {"trained": 64, "extended": 192}
    metrics: dict[str, float] = {"loss": 2.0}
    arrays: dict[str, Any] = {"corpus": {"train": facts("grammar")}}
    generator = np.random.default_rng(seed)
    for name, time in lengths.items():
        noise = 1 + 0.01 * generator.standard_normal((1, len(COEFFICIENTS), 1))
        tilt = 1 + 0.02 * generator.standard_normal() * np.linspace(-1, 1, time)
        curves = normalised(form(kind, time)[None] ** noise * tilt)
        arrays[name] = curves.tolist()
        suffix = "" if name == "trained" else "_extended"
        metrics[f"first_position{suffix}"] = first_position(curves)
        metrics[f"unevenness{suffix}"] = unevenness(curves)
    if kind == MOSAIC:
        first, second, *others = (c + wobble(seed) for c in COEFFICIENTS)
        near = [second, first] if seed % 2 else [first, second]  # so that seeds differ in ranks
        arrays["leaky_coefficients"] = [[*near, *others]]
    content: dict[str, Any] = {
        "seed": seed,
        "task": "attention",
        "model": model,
        "label": "Memory Mosaic" if kind == MOSAIC else "GPT2",
        "identity": hashlib.sha256(kind.encode()).hexdigest(),
        "outcome": outcome,
        "config": {
            "tasks": {"corpus": "grammar", "length": LENGTH, "extension": EXTENSION},
            "models": {"layers": 1} | ({} if kind == MOSAIC else {"positions": kind}),
            "training": {"restarts": 1},
        },
    }
    if outcome == "ok":
        fallen = Curve(x=[0.0, 100.0], y=[7.0, 3.0 + wobble(seed)])
        content |= {"metrics": {"test": metrics}, "arrays": arrays}
        content |= {"curves": {"training_loss": fallen}}
    else:
        content |= {"metrics": {}, "cause": "the loss is not finite at step 7"}
    return make_record(**{**content, **changes})


def facts(corpus: str) -> dict[str, Any]:
    return {
        "corpus": corpus,
        "tokens_sha256": hashlib.sha256(corpus.encode()).hexdigest(),
        "tokenizer": "grammar",
        "source": "local file",
        "licence": "none",
    }


FIGURES: dict[str, tuple[Experiment, tuple[str, ...]]] = {
    "figure14": (figure14.EXPERIMENT, (LEARNED, MOSAIC)),
    "figure15": (figure15.EXPERIMENT, (ROPE, ALIBI, MOSAIC)),
    "figure16": (figure16.EXPERIMENT, (MOSAIC,)),
}


@pytest.fixture(params=sorted(FIGURES))
def figure(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def runs(name: str, seeds: int = 4, **changes: Any) -> list[RunRecord]:
    return [run(kind, seed, **changes) for kind in FIGURES[name][1] for seed in range(seeds)]


def judge(reproduction: Experiment, records: list[RunRecord]) -> dict[str, Finding]:
    return {claim.name: claim.without_control(records) for claim in reproduction.claims}


def verdicts(name: str, records: list[RunRecord]) -> set[str]:
    return {finding.verdict for finding in judge(FIGURES[name][0], records).values()}


def drawn(name: str, records: list[RunRecord]) -> Picture:
    panels = FIGURES[name][0].panels
    assert panels is not None
    return panels(records)


def traces(picture: Picture, kind: str) -> dict[str, Trace]:
    [panel] = [panel for panel in picture.panels if panel.title == LABELS[kind]]
    return {trace.name: trace for trace in panel.traces}


def test_attention_as_published_reproduces_every_claim(figure: str) -> None:
    assert verdicts(figure, runs(figure)) == {REPRODUCED}
    assert verdicts(figure, runs(figure, seeds=1)) == {UNDECIDED}
    assert verdicts(figure, []) == {UNDECIDED}
    for finding in judge(FIGURES[figure][0], runs(figure)).values():
        assert finding.evidence.startswith("corpus: grammar (generated)")


@pytest.mark.parametrize(("name", "rival"), [("figure14", LEARNED), ("figure15", ROPE)])
def test_attention_of_the_other_kind_contradicts_every_claim(name: str, rival: str) -> None:
    """Those on the Mosaic where the transformer is as published; else there is nothing to compare
    it with, and only what is said of the transformer itself is contradicted."""
    others = [run(kind, seed) for kind in FIGURES[name][1][:-1] for seed in range(4)]
    mosaic = [run(MOSAIC, seed, form=opposite) for seed in range(4)]
    found = judge(FIGURES[name][0], [*others, *mosaic])
    of_mosaic = {claim: one.verdict for claim, one in found.items() if "the Mosaic" in claim}
    assert set(of_mosaic.values()) == {CONTRADICTED}
    found = judge(FIGURES[name][0], runs(name, form=opposite))
    assert {found[claim].verdict for claim in of_mosaic} == {UNDECIDED}
    assert {one.verdict for claim, one in found.items() if claim not in of_mosaic} == {CONTRADICTED}
    assert f"{LABELS[rival]}, " in found[next(iter(of_mosaic))].evidence


def test_a_head_that_has_the_lambda_of_another_has_no_peak_as_wide() -> None:
    [claim] = figure16.EXPERIMENT.claims
    finding = claim.judge(runs("figure16")).finding
    assert finding.verdict == REPRODUCED
    assert "λ of the head half of them further on, fails as it must" in finding.evidence


def test_a_mosaic_that_has_learned_nothing_has_no_peaks_to_rank() -> None:
    level = {"training_loss": Curve(x=[0.0, 1.0], y=[7.0, 6.9])}
    assert verdicts("figure16", [run(MOSAIC, n, curves=level) for n in range(4)]) == {UNDECIDED}


def test_widths_that_fall_with_lambda_contradict() -> None:
    reversed_heads = [
        run(MOSAIC, seed, form=lambda kind, time: published(kind, time)[::-1]) for seed in range(4)
    ]
    assert verdicts("figure16", reversed_heads) == {CONTRADICTED}
    without_peak = [run(MOSAIC, seed, form=opposite) for seed in range(4)]
    assert verdicts("figure16", without_peak) == {UNDECIDED}


def test_diverged_runs_support_no_claim_and_are_named(figure: str) -> None:
    lost = runs(figure, outcome="diverged")
    for name, finding in judge(FIGURES[figure][0], lost).items():
        assert finding.verdict != REPRODUCED, name
        assert "seed 3 diverged (the loss is not finite at step 7)" in finding.evidence
    one = [*runs(figure, seeds=3), *(run(k, 3, outcome="diverged") for k in FIGURES[figure][1])]
    assert REPRODUCED not in verdicts(figure, one)


def test_the_width_of_a_peak_by_hand() -> None:
    # From distance 1 on 9, 5, 3, 1.5, 1, ...: between 3 and 4 the line crosses twice the level.
    head = np.ones(32)
    head[-5:] = [1.5, 3, 5, 9, 0]
    no_peak = np.ones(32)
    everywhere = np.full(32, 0.0)
    everywhere[-2] = 32
    widths = heads.peak_widths(np.stack([head, no_peak, everywhere]))
    assert widths == pytest.approx([3 + 1 / 1.5, 0, 2])


@given(height=st.floats(3, 1e4), coefficient=st.floats(0.05, 0.95))
def test_the_width_of_an_exponential_peak(height: float, coefficient: float) -> None:
    far = distances(512)
    head = 1 + height * coefficient ** (far - 1)
    head[-1] = 0
    expected = 1 + math.log(height) / -math.log(coefficient)  # where the excess falls to 1
    [width] = heads.peak_widths(head[None] / head.sum() * 512)
    # The flat level, a median, holds a little of the tail of the widest peaks.
    assert expected - 0.2 <= width <= math.ceil(expected) + 0.05


def test_rank_correlation_is_spearmans() -> None:
    record = run(MOSAIC, 0)
    order = [2, 0, 1, 3]  # the heads' widths are ordered as λ: move λ around
    moved = [[COEFFICIENTS[k] for k in order]]
    record = record.model_copy(update={"arrays": {**record.arrays, "leaky_coefficients": moved}})
    squares = sum((rank - place) ** 2 for place, rank in enumerate(order))
    assert heads.rank_correlation(record) == pytest.approx(1 - 6 * squares / (4 * (16 - 1)))


def test_numbers_of_long_windows_by_hand() -> None:
    far = distances(192)
    up_and_down = np.stack([np.where(far >= LENGTH, level, 1.0) for level in (2.0, 0.5, 1.0, 1.0)])
    record = run(ROPE, 0)
    arrays = {**record.arrays, "extended": [normalised(up_and_down).tolist()]}
    record = record.model_copy(update={"arrays": arrays})
    # Factors 2, 2, 1, 1, whichever the direction.
    assert heads.change_beyond(record) == pytest.approx(math.sqrt(2), rel=1e-3)
    arrays["extended"] = [normalised(np.exp(-far / 5) * np.ones((4, 1))).round(8).tolist()]
    vanished = record.model_copy(update={"arrays": arrays})
    assert 100 < heads.change_beyond(vanished) <= 192  # finite, where all is rounded to zero


def test_each_figure_takes_its_own_models() -> None:
    every = [run(kind, 0) for kind in (MOSAIC, LEARNED, ROPE, ALIBI)]
    deeper = run(MOSAIC, 1, config={**every[0].config, "models": {"layers": 2}})
    elsewhere = run(MOSAIC, 1, task="babistories")
    for name, (reproduction, kinds) in FIGURES.items():
        found = reproduction.select([*every, deeper, elsewhere])
        assert sorted(map(kind_of, found)) == sorted(kinds), name


def test_models_on_other_windows_or_text_are_not_compared() -> None:
    one, other = run(MOSAIC, 0), run(LEARNED, 0)
    provenance = one.provenance.model_copy(update={"data": {"windows": "0" * 64}})
    select = figure14.EXPERIMENT.select
    with pytest.raises(UserError, match="different windows"):
        select([one.model_copy(update={"provenance": provenance}), other])
    arrays = {**other.arrays, "corpus": {"train": facts("tinystories")}}
    tasks = {**other.config["tasks"], "corpus": "tinystories"}
    with pytest.raises(UserError, match="different corpora"):
        select([one, run(LEARNED, 0, arrays=arrays, config={**other.config, "tasks": tasks})])


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu", "paper"])
def test_plans_are_runs_of_one_block(figure: str, preset: str) -> None:
    reproduction, kinds = FIGURES[figure]
    plan = reproduction.plan(preset, None)
    swept = preset == "laptop"  # where each kind has its own learning rate
    each = (0, len(kinds)) if swept else (3 * len(kinds), 0)
    assert (len(in_words(plan.runs)), len(in_words(plan.sweeps)), in_words(plan.baselines)) == (
        *each,
        (),
    )
    runs = [plan_sweep(settings).entries[0].configuration for settings in plan.sweeps]
    runs += [Configuration.of(settings) for settings in plan.runs]
    for run, kind in zip(runs, [*kinds] * (len(runs) // len(kinds)), strict=True):
        configuration = run.with_(preset=preset)
        assert configuration.models["layers"] == 1
        assert configuration.models["heads"] >= 8  # enough to rank
        assert configuration.models.get("positions") == (None if kind == MOSAIC else kind)
        given_later = configuration.with_(models_heads=4)
        assert given_later.models["heads"] == 4


def test_equal_records_give_equal_bytes_and_the_failed_are_named(figure: str) -> None:
    _, kinds = FIGURES[figure]
    records = [*runs(figure, seeds=2), run(kinds[0], 2, outcome="diverged")]
    picture = drawn(figure, records)
    assert picture == drawn(figure, records[::-1])
    assert rendered(picture) == drawn(figure, records).to_json()
    failed = f"{LABELS[kinds[0]]} seed 2 diverged (the loss is not finite at step 7)"
    assert picture.foot == (failed,)


@pytest.mark.parametrize(("name", "windows"), [("figure14", "trained"), ("figure15", "extended")])
def test_a_panel_has_the_heads_of_one_seed_and_the_mean_of_each(name: str, windows: str) -> None:
    records = runs(name, seeds=3)
    picture = drawn(name, records)
    highest = 0.0
    for record in records:
        own = np.array(record.arrays[windows][0])
        own *= own.shape[-1]  # times uniform
        shown = traces(picture, kind_of(record))
        assert len(shown) == len(own) + 3
        mean = shown[f"mean over heads, seed {record.seed}"]
        expected = [None if y == 0 else y for y in own.mean(axis=0).round(5)]
        assert mean.y == pytest.approx(expected)
        if record.seed == 0:
            for number, head in enumerate(own):
                drawn_head = [y or 0 for y in shown[f"head {number}"].y]
                assert drawn_head == pytest.approx(head, abs=1e-5)
        highest = max(highest, own.mean(axis=0).max())
    for panel in picture.panels:  # one scale, on which nothing leaves the top
        assert panel.y.limits == picture.panels[0].y.limits
        assert panel.y.limits[1] is not None
        assert panel.y.limits[1] > highest
        begins = [remark.x for remark in panel.remarks if remark.x is not None]
        assert begins == ([] if name == "figure14" else [EXTENSION * LENGTH - LENGTH])


def test_figure_16_shows_relative_curves_and_every_width() -> None:
    records = runs("figure16", seeds=9)
    curves, widths = drawn("figure16", records).panels
    record = records[0]
    own = np.array(record.arrays["trained"][0])
    for trace, head, shade in zip(
        curves.traces, own, record.arrays["leaky_coefficients"][0], strict=True
    ):
        level = np.median(head[: LENGTH - LENGTH // 8])
        assert trace.shade == shade
        assert trace.x == tuple(range(1, LENGTH // 4))
        assert trace.y[:2] == pytest.approx((head[-2] / level, head[-3] / level), abs=1e-4)
    assert [trace.name.split(":")[0] for trace in widths.traces] == [f"seed {n}" for n in range(9)]
    for record, trace in zip(records, widths.traces, strict=True):
        assert trace.x == tuple(record.arrays["leaky_coefficients"][0])
        assert trace.y == pytest.approx(heads.peak_widths(np.array(record.arrays["trained"][0])))
        assert f"{heads.rank_correlation(record):.2f}" in trace.name


def test_a_figure_without_any_result_is_still_drawn(figure: str) -> None:
    for records in ([], runs(figure, seeds=2, outcome="diverged")):
        picture = drawn(figure, records)
        assert "no result" in [remark.text for p in picture.panels for remark in p.remarks]
        assert rendered(picture)


@pytest.mark.long
def test_figure_15_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = [
        "figure15",
        "seeds=1",
        f"store={tmp_path}",
        "tracking=none",
        "training.steps=2",
        "training.warmup_steps=1",
        "models.heads=2",
        "models.width=16",
        "stories_size=200",
        "held_out_tokens=1000",
        "windows=20",
    ]
    assert main(tiny, {"figure15": figure15.EXPERIMENT}) == OK
    said = capsys.readouterr().out
    assert "corpus: grammar (generated) · tokens of the grammar tokenizer" in said
    assert "GPT2, RoPE, change beyond training" in said
    assert len(list((tmp_path / "controls").glob("*.json"))) == 3
    [folder] = (tmp_path / "reproductions" / "figure15").iterdir()
    picture = Picture.read(folder / "curves.json")
    assert picture.note == "corpus: grammar (generated) · tokens of the grammar tokenizer"
    assert picture.subtitle.startswith("seed 0 · measured here at preset smoke")
    for kind in FIGURES["figure15"][1]:
        shown = traces(picture, kind)
        assert list(shown) == ["head 0", "head 1", "mean over heads, seed 0"]
        assert {len(trace.x) for trace in shown.values()} == {3 * 128}
