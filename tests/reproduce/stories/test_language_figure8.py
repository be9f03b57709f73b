"""Figure 8 on constructed losses by position whose verdicts are known."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.schema import RunRecord
from core.errors import UserError
from core.statistics import LOSS, Items, difference_interval
from reproduce.claims.controls import UNTRAINED
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import figure8, positions
from reproduce.stories.context import ROPE
from reproduce.stories.language import GPT2
from reproduce.stories.positions import Stretch
from tests.reproduce.plans import in_words
from tests.reproduce.stories.language_records import lost, of_documents, tables, written

SEEDS = range(3)
CLAIMS = figure8.EXPERIMENT.claims


def transformer(p: np.ndarray, kind: str) -> np.ndarray:
    """Flat after 100 positions; on stories a little lower everywhere."""
    return 3.0 - 0.01 * np.minimum(p, 100) if kind == "stories" else 6 - 0.01 * np.minimum(p, 100)


def mosaic(p: np.ndarray, kind: str) -> np.ndarray:
    """On articles worse before position 50 and better after; the same on stories."""
    theirs = transformer(p, kind)
    return theirs if kind == "stories" else theirs - 0.002 * (p - 50)


def wobble(seed: int) -> float:
    return 0.01 * np.sin(12.9898 * (seed + 1))


def world(
    ours: Any = mosaic, theirs: Any = transformer, seeds: Any = SEEDS, **options: Any
) -> list[RunRecord]:
    """Runs of both models, and of another transformer as the control."""
    models = ((MOSAIC, ours), (GPT2, theirs), (ROPE, theirs))
    return [
        of_documents(model, seed, tables(loss, shift=wobble(seed + 9 * place), **options))
        for place, (model, loss) in enumerate(models)
        for seed in seeds
    ]


def judge(records: list[RunRecord]) -> dict[str, Finding]:
    """With the controls by hand; untrained runs are another test's."""
    return {
        claim.name: claim.without_control(records)
        if claim.control is UNTRAINED
        else claim.judge(records).finding
        for claim in CLAIMS
    }


def test_models_as_published_reproduce_every_claim() -> None:
    found = judge(world())
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    assert {f.verdict for f in judge(world(seeds=[0])).values()} == {UNDECIDED}
    for finding in found.values():
        assert finding.evidence.startswith("corpus: grammar (generated) · tokens of the grammar")


def test_models_of_the_other_kind_contradict() -> None:
    found = judge(world(ours=lambda p, kind: 7 + 0.001 * p, theirs=lambda p, kind: 6 - 0.002 * p))
    assert {finding.verdict for finding in found.values()} == {CONTRADICTED}


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        (lambda p, kind: 6 + 0.001 * p, CONTRADICTED),  # worse with every token that it has read
        (lambda p, kind: 6 + 0.001 * np.minimum(p, 120), CONTRADICTED),
        (lambda p, kind: 6 - 3e-5 * p, CONTRADICTED),  # 0.003 are no fall
        (lambda p, kind: 6 - 3e-4 * np.minimum(p, 120), UNDECIDED),  # about 0.03: it cannot be told
        (lambda p, kind: 6 - 0.01 * p, CONTRADICTED),  # better to the end
        (lambda p, kind: 6 - 0.01 * np.minimum(p, 120), REPRODUCED),
        (lambda p, kind: 6 - 0.01 * np.minimum(p, 120) + 0.001 * p, REPRODUCED),
    ],
)
def test_only_a_loss_that_fell_before_flattens(theirs: Any, verdict: str) -> None:
    found = judge(world(theirs=theirs))
    for kind in ("stream", "article"):
        finding = found[f"the transformer flattens ({kind})"]
        assert finding.verdict == verdict
        assert "from positions 1–50 to 101–150" in finding.evidence
        assert "from positions 101–150 to 151–512" in finding.evidence


def test_models_that_have_learned_nothing_are_not_called_equal() -> None:
    name = "equal on stories (control)"
    untrained = world(ours=lambda p, kind: 11 + 0 * p, theirs=lambda p, kind: 11 + 0 * p)
    finding = judge(untrained)[name]
    assert finding.verdict == UNDECIDED
    assert "no better than counting tokens" in finding.evidence
    runs = world()
    assert judge(runs)[name].verdict == REPRODUCED
    unigram = of_documents("unigram", 0, tables(lambda p, kind: 1 + 0 * p), role="baseline")
    assert judge([*runs, unigram])[name].verdict == UNDECIDED


def test_the_crossing_is_where_the_curves_cross() -> None:
    equal = [
        of_documents(model, seed, tables(loss))
        for model, loss in ((MOSAIC, mosaic), (GPT2, transformer))
        for seed in SEEDS
    ]
    found = positions.difference(equal, "stream")
    assert found is not None
    assert found.crossing == 50
    assert found.crossings == (50, 50)  # both models have the same offset for each document
    assert str(found) == "ahead from position 50 on (95 % over documents 50 to 50)"
    never = positions.difference(world(ours=transformer, theirs=mosaic), "stream")
    assert never is not None
    assert never.crossing is None
    assert positions.difference(equal[:3], "stream") is None  # of one model alone


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=20))
def test_crossing_by_its_definition(difference: list[int]) -> None:
    found = positions.crossing(np.array(difference, float))
    pairs = [(a + b) / 2 for a, b in pairwise(difference)]
    middles = [8.5 + 8 * pair for pair in range(len(pairs))]
    dense = np.arange(8 * middles[0], 8 * middles[-1] + 1) / 8
    line = np.interp(dense, middles, pairs)
    if found is None:
        assert pairs[-1] <= 0
    elif found == 1:
        assert min(pairs) > 0
    else:
        assert np.interp(found, middles, pairs) == pytest.approx(0, abs=1e-9)
        assert (line[dense > found + 1e-9] > 0).all()


def test_documents_alone_can_leave_it_open() -> None:
    # Seeds agree to the last digit, but the lead comes from a few documents.
    def one(model: str, seed: int, lead: float) -> RunRecord:
        losses = tables(transformer, documents=6)
        for table in losses.values():
            table[:2] -= lead
        return of_documents(model, seed, losses)

    runs = [
        one(model, seed, 0.5 * (model == MOSAIC) + 1e-6 * seed)
        for model in (MOSAIC, GPT2)
        for seed in SEEDS
    ]
    finding = judge(runs)["ahead after 50 tokens (stream)"]
    assert finding.verdict == UNDECIDED
    assert "over seeds and 6 documents" in finding.evidence
    assert finding.seeds_needed is None  # more seeds are no more documents
    assert judge(world())["ahead after 50 tokens (stream)"].verdict == REPRODUCED


def test_seeds_alone_can_leave_it_open() -> None:
    shifts = {0: -0.3, 1: 0.0, 2: 0.3}
    runs = [
        of_documents(model, seed, tables(loss, shift=shifts[seed] * (model == MOSAIC)))
        for model, loss in ((MOSAIC, mosaic), (GPT2, transformer))
        for seed in SEEDS
    ]
    finding = judge(runs)["ahead after 50 tokens (stream)"]
    assert finding.verdict == UNDECIDED
    assert finding.seeds_needed is not None
    assert finding.seeds_needed > 3


def test_intervals_cover_new_seeds_and_new_documents() -> None:
    generator = np.random.default_rng(3)
    rounds, documents, truth = 600, 50, 0.2
    hits = {"both": 0, "seeds": 0}
    for _ in range(rounds):
        # Each seed has its own level; which documents are drawn moves all seeds alike.
        drawn = generator.normal(0, 1.0, documents)
        theirs = truth + generator.normal(0, 0.05, 3) + drawn.mean()
        ours = generator.normal(0, 0.1, 3)
        variance = float(np.var(drawn, ddof=1)) / documents
        for name, spread in (("both", Items(documents, variance)), ("seeds", None)):
            found = difference_interval(theirs.tolist(), ours.tolist(), LOSS, together=spread)
            assert found is not None
            hits[name] += found.low < truth < found.high
    assert 0.93 < hits["both"] / rounds < 0.99
    assert hits["seeds"] / rounds < 0.85  # what is lost without the documents


def test_spread_is_that_of_a_bootstrap_over_whole_documents() -> None:
    runs = world()
    band = (57, 96)  # whole bins, so that nothing is approximate
    found = Stretch("stream", band).spread(runs, GPT2, minus=MOSAIC)
    assert found is not None
    losses = {
        model: np.mean(
            [
                tables(loss, shift=wobble(seed + 9 * (model == GPT2)))["stream"][:, 56:96]
                for seed in SEEDS
            ],
            axis=(0, 2),
        )
        for model, loss in ((MOSAIC, mosaic), (GPT2, transformer))
    }
    count = len(losses[GPT2])
    rows = np.random.default_rng(0).integers(count, size=(200, count))
    means = (losses[GPT2] - losses[MOSAIC])[rows].mean(axis=1)
    assert found.count == count
    unbiased = count / (count - 1)
    assert found.variance == pytest.approx(unbiased * np.var(means, ddof=1), rel=1e-9)


@pytest.mark.parametrize("documents", [2, 3, 6])
def test_the_spread_of_few_documents_is_that_over_new_ones(documents: int) -> None:
    band = (1, 512)
    run = of_documents(GPT2, 0, tables(transformer, documents=documents))
    found = Stretch("stream", band).spread([run], GPT2)
    assert found is not None
    means = tables(transformer, documents=documents)["stream"].mean(axis=1)
    truth = np.var(means, ddof=1) / documents
    assert found.variance == pytest.approx(
        truth, rel=0.15
    )  # 200 draws; the bias is a sixth to half


def test_one_document_settles_nothing_and_few_are_called_few() -> None:
    one = judge(world(documents=1))
    assert {finding.verdict for finding in one.values()} == {UNDECIDED}
    evidence = one["ahead after 50 tokens (stream)"].evidence
    assert "1 of the documents: no interval" in evidence
    assert "(of a single document)" in evidence
    alone = positions.difference(world(documents=1), "stream")
    assert alone is not None
    assert set(alone.intervals) == {None}
    few = judge(world(documents=9))["ahead after 50 tokens (stream)"].evidence
    assert "over seeds and 9 documents, which are few" in few
    enough = judge(world(documents=10))["ahead after 50 tokens (stream)"].evidence
    assert "few" not in enough


def test_seeds_that_agree_exactly_have_no_interval() -> None:
    pair = [0.5, 0.5], [0.25, 0.25]
    assert difference_interval(*pair, LOSS) is None
    assert difference_interval(*pair, LOSS, together=Items(40, 0.0)) is None
    assert difference_interval(*pair, LOSS, together=Items(40, 0.01)) is not None


def test_bands_are_means_of_positions() -> None:
    run = of_documents(GPT2, 0, tables(transformer))
    exact = tables(transformer)["article"]
    late = Stretch("article", (151, 512))
    assert late.read(run) == pytest.approx(exact[:, 150:].mean())
    assert str(late) == "article, positions 151–512"
    fall = Stretch("article", (1, 50), (151, 512))
    assert fall.read(run) == pytest.approx(exact[:, :50].mean() - exact[:, 150:].mean())
    assert str(fall) == "article, from positions 1–50 to 151–512"
    assert fall.read(lost(run)) is None


def test_the_spread_of_a_fall_is_that_of_its_difference() -> None:
    run = of_documents(GPT2, 0, tables(transformer))
    found = Stretch("stream", (1, 48), (153, 512)).spread([run], GPT2)
    assert found is not None
    table = tables(transformer)["stream"]
    falls = table[:, :48].mean(axis=1) - table[:, 152:].mean(axis=1)
    rows = np.random.default_rng(0).integers(len(falls), size=(200, len(falls)))
    unbiased = len(falls) / (len(falls) - 1)
    truth = unbiased * np.var(falls[rows].mean(axis=1), ddof=1)
    assert found.variance == pytest.approx(truth, rel=1e-9)


def test_short_windows_and_short_articles_are_left_out() -> None:
    short = judge(world(length=128))
    assert short["the transformer flattens (stream)"].verdict == NOT_ASKED
    assert "128 tokens" in short["the transformer flattens (stream)"].evidence
    assert short["ahead after 50 tokens (stream)"].verdict == REPRODUCED
    assert "51–128" in short["ahead after 50 tokens (stream)"].evidence
    shorter = judge(world(length=48))
    assert shorter["ahead after 50 tokens (stream)"].verdict == NOT_ASKED
    assert shorter["the lead comes from the context (stream)"].verdict == NOT_ASKED
    without = judge(world(kinds=("stream", "stories")))
    assert without["ahead after 50 tokens (article)"].verdict == NOT_ASKED
    assert without["ahead after 50 tokens (stream)"].verdict == REPRODUCED


def test_a_diverged_mosaic_never_supports_its_lead() -> None:
    runs = [lost(r) if (r.model, r.seed) == (MOSAIC, 2) else r for r in world()]
    finding = judge(runs)["ahead after 50 tokens (stream)"]
    assert finding.verdict == UNDECIDED
    assert "Memory Mosaic seed 2 diverged" in finding.evidence
    nothing = judge([lost(run) for run in world()])
    assert {finding.verdict for finding in nothing.values()} == {UNDECIDED}


def test_one_figure_shows_one_corpus_and_the_same_windows() -> None:
    runs = world()
    other = of_documents(GPT2, 5, tables(transformer), corpus="local")
    with pytest.raises(UserError, match="different corpora"):
        figure8.EXPERIMENT.select([*runs, other])
    edited = runs[0].model_copy(
        update={"provenance": runs[0].provenance.model_copy(update={"data": {"test": "0" * 64}})}
    )
    with pytest.raises(UserError, match="different windows"):
        figure8.EXPERIMENT.select([edited, *runs[1:]])
    assert figure8.EXPERIMENT.select(
        [*runs, runs[0].model_copy(update={"task": "babistories"})]
    ) == sorted(runs, key=lambda run: run.run_id)


@pytest.mark.parametrize("loss", [lost, lambda run: run])
def test_equal_records_give_equal_pictures_and_the_figure_names_its_corpus(
    loss: Any, tmp_path: Path
) -> None:
    unigram = of_documents("unigram", 0, tables(transformer, length=64), role="baseline")
    runs = [loss(run) for run in world(length=64)] + [unigram]
    if loss is not lost:
        runs = [*runs[:-1], lost(runs[0].model_copy(update={"seed": 3}))]
    picture = written(figure8.EXPERIMENT, runs, tmp_path)
    assert picture.note.startswith("corpus: grammar")
    assert len(picture.foot) == (7 if loss is lost else 1)


def test_the_picture_has_losses_above_and_their_difference_below() -> None:
    runs = world()
    above, below, _ = figure8.EXPERIMENT.draw(runs).rows
    assert [panel.title for panel in above.panels] == list(positions.KINDS.values())
    stream, *_ = above.panels
    found = {trace.name: trace for trace in stream.traces}
    assert set(found) == {"Memory Mosaic", "GPT2", "GPT2 with RoPE"}
    exact = tables(transformer, shift=wobble(9))["stream"].mean(axis=0)
    assert found["GPT2"].seeds["0"][1] == pytest.approx(exact[8:16].mean(), abs=1e-9)
    gap = {trace.name: trace for trace in below.panels[0].traces}
    mean = gap["difference, 95 % over seeds and documents"]
    y, theirs, ours = (np.array(t.y, float) for t in (mean, found["GPT2"], found["Memory Mosaic"]))
    assert y == pytest.approx(theirs - ours, abs=1e-9)
    low, high = np.array(mean.interval, float).T
    assert (low < y).all()
    assert (y < high).all()
    assert 30 < gap["Mosaic ahead from here"].x[0] < 70


def test_a_control_that_holds_too_or_was_not_run_leaves_it_open() -> None:
    name = "ahead after 50 tokens (stream)"
    assert (
        "GPT2 with RoPE in the place of Memory Mosaic, fails as it must"
        in judge(world())[name].evidence
    )
    alone = judge([run for run in world() if run.model != ROPE])[name]
    assert (alone.verdict, "was not run" in alone.evidence) == (UNDECIDED, True)
    twins = [run for run in world() if run.model != ROPE]
    twins += [of_documents(ROPE, seed, tables(mosaic, shift=wobble(seed + 30))) for seed in SEEDS]
    both = judge(twins)[name]
    assert (both.verdict, "holds too" in both.evidence) == (UNDECIDED, True)


def test_the_plan_is_one_sweep_with_the_control_in_it() -> None:
    assert in_words(figure8.EXPERIMENT.plan("smoke", None).sweeps) == (
        ("tasks=wikipedia", "models=[memory_mosaic,gpt2,gpt2_rope]"),
    )
    ((_, models),) = in_words(figure8.EXPERIMENT.plan("laptop", 5).sweeps)
    assert ROPE in models
    assert "conv_attention" in models
