"""Figures 7 and 13 on constructed runs whose verdicts are known."""

import re

import pytest

from bench.records.schema import RunRecord, Study
from bench.runs.catalog import training_key
from core.errors import UserError
from core.files import ROOT
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.experiment import Experiment, Plan
from reproduce.prompts import table5
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import figure7, figure8, figure13, language, table2
from reproduce.stories.language import GPT2, SEARCHED
from tests.configurations import compose, make_plan
from tests.reproduce.plans import in_words
from tests.reproduce.stories.language_records import SEEDS, judge, lost, of_depths, run, without

LAPTOP = "preset=laptop"


def test_depths_as_published() -> None:
    runs = of_depths({1: 0.1, 8: 0.0, 12: -0.005, 18: 0.0}, preset="paper", corpus="babistories")
    assert {f.verdict for f in judge(figure7.EXPERIMENT, runs).values()} == {REPRODUCED}
    more = [*runs, *of_depths({4: 0.05}, preset="paper", corpus="babistories")]
    assert {f.verdict for f in judge(figure13.EXPERIMENT, more).values()} == {REPRODUCED}


def test_depths_of_the_other_kind_contradict() -> None:
    runs = of_depths({1: -0.1, 4: -0.1, 8: 0.1, 12: 0.1, 18: 0.1}, preset="paper")
    (only,) = judge(figure13.EXPERIMENT, runs).values()
    assert only.verdict == CONTRADICTED
    found = judge(figure7.EXPERIMENT, runs)
    own = {finding.verdict for name, finding in found.items() if "losses" not in name}
    assert own == {CONTRADICTED}
    worse = of_depths({12: 0.1}, preset="paper", corpus="babistories")
    found = judge(figure7.EXPERIMENT, worse)
    assert found["losses of GPT2, 12 blocks"].verdict == CONTRADICTED
    assert found["losses of Memory Mosaic, 12 blocks"].verdict == REPRODUCED


def test_a_small_preset_judges_what_it_has() -> None:
    found = judge(figure7.EXPERIMENT, of_depths({1: 0.1, 2: 0.02}))
    assert found["ahead at depth 1"].verdict == REPRODUCED
    assert found["ahead at depth 1"].evidence.startswith("corpus: grammar (generated)")
    assert found["the lead shrinks with depth"].verdict == REPRODUCED
    assert "2 is the deepest at this preset, not 8" in found["the lead shrinks with depth"].evidence
    for depth in (8, 12, 18):
        assert found[f"equal at depth {depth}"].verdict == NOT_ASKED
    assert found["losses of GPT2, 12 blocks"].verdict == NOT_ASKED
    # No lead at all is not one that shrinks.
    behind = judge(figure7.EXPERIMENT, of_depths({1: -0.1, 2: -0.3}))
    assert behind["the lead shrinks with depth"].verdict == CONTRADICTED


def test_levels_are_judged_on_babistories_at_its_scale_only() -> None:
    name = "losses of GPT2, 12 blocks"
    for options in ({"preset": "paper"}, {"preset": "gpu", "corpus": "babistories"}):
        found = judge(figure7.EXPERIMENT, of_depths({12: -0.005}, **options))[name]
        assert found.verdict == NOT_ASKED


@pytest.mark.parametrize(
    ("words", "judged"),
    [
        ("training.lr=1e-3", False),
        ("training.weight_decay=0.01", False),
        ("training.warmup_steps=100", False),
        ("training.gradient_clip=0", False),
        ("models.dropout=0", False),
        ("models.heads=6", False),
        ("tasks.length=256", False),
        ("tasks.tokenizer=grammar", False),
        ("tasks.tokenizer=gpt2", True),  # what "auto" is on this corpus
        ("tasks.data_seed=0", True),
    ],
)
def test_levels_are_judged_at_the_published_settings_only(words: str, judged: bool) -> None:
    runs = [
        run(GPT2, seed, ("models.layers=12", words), 1.494, 1.336, "paper", "babistories")
        for seed in SEEDS
    ]
    found = judge(figure7.EXPERIMENT, runs)["losses of GPT2, 12 blocks"]
    assert found.verdict == (REPRODUCED if judged else NOT_ASKED)
    assert found.asked_at == ("" if judged else "paper")


def test_one_lost_seed_leaves_it_open() -> None:
    runs = of_depths({1: 0.1, 2: 0.0})
    at = next(i for i, r in enumerate(runs) if (r.model, r.seed) == (MOSAIC, 1))
    runs[at] = lost(runs[at])
    found = judge(figure7.EXPERIMENT, runs)
    assert found["ahead at depth 1"].verdict == UNDECIDED
    assert "seed 1 diverged" in found["ahead at depth 1"].evidence
    assert found["the lead shrinks with depth"].verdict == UNDECIDED


def test_only_runs_with_the_settings_of_the_preset_belong_to_a_figure() -> None:
    runs = of_depths({1: 0.1, 2: 0.0})
    tuned = run(GPT2, 0, ("models.layers=1", "training.lr=2e-3"), 1.0, 1.0)
    select = figure7.EXPERIMENT.select
    assert {r.run_id for r in select([*runs, tuned])} == {r.run_id for r in runs}
    assert select([tuned]) == [tuned]  # where the user changed it for all
    with pytest.raises(UserError, match=r"varies models\.layers"):
        select(of_depths({7: 0.0}))
    with pytest.raises(UserError, match="different corpora"):
        select([*runs, *of_depths({2: 0.0}, corpus="tinystories")])


@pytest.mark.parametrize("key", ["models.implementation", "training.bias_correction"])
def test_runs_older_than_a_setting_stay_in_their_figure(key: str) -> None:
    runs = of_depths({1: 0.1, 2: 0.0})
    old = [without(r, key) if r.model == MOSAIC else r for r in runs]
    select = figure7.EXPERIMENT.select
    assert {r.run_id for r in select(old)} == {r.run_id for r in runs}
    # What was changed beside that is still seen.
    tuned = without(run(MOSAIC, 0, ("models.layers=1", "training.lr=2e-3"), 1.0, 1.0), key)
    assert {r.run_id for r in select([*old, tuned])} == {r.run_id for r in runs}


def test_runs_of_other_settings_are_refused_and_not_left_out() -> None:
    select = figure7.EXPERIMENT.select

    def made(model: str, *words: str) -> RunRecord:
        return run(model, 0, ("models.layers=1", *words), 1.0, 1.0)

    longer = "training.steps=400"
    with pytest.raises(UserError, match=r"training\.steps=(300|400) and training\.steps=(300|400)"):
        select([made(GPT2), made(MOSAIC, longer)])
    with pytest.raises(UserError, match=r"training\.steps"):
        select([made(GPT2, "training.steps=200"), made(MOSAIC, longer)])
    deeper = run(GPT2, 0, ("models.layers=2", longer), 1.0, 1.0)
    with pytest.raises(UserError, match=r"training\.steps"):
        select([made(GPT2), made(MOSAIC), deeper])
    assert len(select([made(GPT2, longer), made(MOSAIC, longer)])) == 2
    # A setting that the other model does not have is no difference between the two.
    assert len(select([made(GPT2), made(MOSAIC, "models.persistent_slots=8")])) == 2


@pytest.mark.parametrize(
    ("reproduction", "task", "figure"),
    [(figure7.EXPERIMENT, "babistories", 7), (figure8.EXPERIMENT, "wikipedia", 8)],
)
def test_the_section_is_that_of_the_task(reproduction: Experiment, task: str, figure: int) -> None:
    card = " ".join((ROOT / "tasks" / f"{task}.yaml").read_text().split())
    (section,) = set(re.findall(rf"section (\d), Figure {figure}", card))
    assert reproduction.source.endswith(f"section {section}, figure {figure}")


def test_figure_13_has_the_depths_of_figure_7_and_asks_nothing_twice() -> None:
    asked = [{claim.name for claim in f.EXPERIMENT.claims} for f in (figure7, figure13)]
    assert asked[1]
    assert not asked[0] & asked[1]
    for preset in figure7.DEPTHS:
        fewer, more = (f.EXPERIMENT.plan(preset, None) for f in (figure7, figure13))
        assert {*in_words(fewer.runs), *in_words(fewer.sweeps)} < {
            *in_words(more.runs),
            *in_words(more.sweeps),
        }
        depths = len(figure7.DEPTHS[preset])
        assert (len(in_words(fewer.runs)), len(in_words(fewer.sweeps))) in (
            (6 * depths, 0),
            (0, depths),
        )


def test_figures_and_tables_share_their_trainings_where_models_are_tuned() -> None:
    """Each training is named once, whichever figure asks for it first."""

    def trainings(plan: Plan) -> set[str]:
        entries = [
            entry
            for words in in_words(plan.sweeps)
            for entry in make_plan([*words, LAPTOP]).entries
        ]
        every = [entry.at({"training.lr": 0.02}) for entry in entries]
        every += [compose([*words, LAPTOP]) for words in in_words(plan.runs)]
        return {training_key(one.of_training().resolved(), 0) for one in every}

    depths = trainings(figure13.EXPERIMENT.plan("laptop", None))
    assert len(depths) == 6
    assert trainings(figure7.EXPERIMENT.plan("laptop", None)) < depths
    assert trainings(table5.EXPERIMENT.plan("laptop", None)) < depths
    assert len(trainings(figure8.EXPERIMENT.plan("laptop", None)) & depths) == 2
    assert len(trainings(table2.EXPERIMENT.plan("laptop", None)) & depths) == 1


def test_a_figure_of_tuned_models_shows_no_run_whose_rate_nobody_searched() -> None:
    space = {SEARCHED: [0.01, 0.02]}
    words = {"name": "n", "sampler": "grid", "optuna": "5", "selected_by": "loss", "trials": []}
    of_sweep = Study(search_space=space, **words)
    usual = {"loss": 3.0, "train": 3.0, "preset": "laptop"}
    found = [run(model, n, (), **usual) for model in (GPT2, MOSAIC) for n in range(2)]
    tuned = [one.model_copy(update={"study": of_sweep}) for one in found]
    other = run(GPT2, 2, ("training.lr=0.004",), **usual)  # of table 2
    shown = figure7.EXPERIMENT.select([*tuned, other])
    assert {record.run_id for record in shown} == {record.run_id for record in tuned}
    assert other in language.tuned([*found, other])  # without a search all are shown
