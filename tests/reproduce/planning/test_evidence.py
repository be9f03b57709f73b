"""One command for all evidence: its plan, its order, its clock, and what a kill leaves."""

import random
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bench.runs.catalog
from bench.config.command_line import read
from bench.config.settings import Configuration
from bench.records.schema import Cost, RunRecord, read_record, read_records, write_record
from bench.records.store import Store
from bench.runs.catalog import RecordCatalog, training_key
from bench.runs.serving import identify
from bench.search.plan import plan_sweep
from core.errors import OK, UserError
from reproduce.__main__ import reproductions
from reproduce.claims.claims import ClaimResult
from reproduce.claims.observations import latest
from reproduce.claims.verdicts import not_asked
from reproduce.planned import PlannedRun
from reproduce.planning.command import EvidenceRequest, main
from reproduce.planning.console import print_how_to_commit
from reproduce.planning.cost import Speeds
from reproduce.planning.survey import PRESETS, Candidate, Review, Survey, in_order
from reproduce.planning.work import clock
from reproduce.request import Request
from tests import commands
from tests.bench.records import make_record
from tests.committed import copied_folder
from tests.configurations import compose, make_plan
from tests.reproduce.plans import in_words

FIGURES = reproductions()


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of committed records, of which a test may hide some."""
    folder = tmp_path / "committed"
    for task in ("three_moons", "regbench"):
        copied_folder(f"{task}/smoke", folder)
    monkeypatch.setattr(bench.runs.catalog, "COMMITTED", folder)
    bench.runs.catalog._committed.cache_clear()
    yield folder
    bench.runs.catalog._committed.cache_clear()


def survey_of(figure: str, store: Path) -> Survey:
    settings = {"preset": "smoke", "store": str(store), "workers": 0}
    return Survey({figure: FIGURES[figure]}, {figure: settings}, "smoke", store)


@pytest.mark.parametrize("prefix", ["", "sweep."])
def test_where_runs_are_made_goes_to_every_figure(prefix: str) -> None:
    making = {f"{prefix}executor": "ray", f"{prefix}ray.num_gpus": 0.25}
    making[f"{prefix}storage"] = "postgresql://bench@host/bench"
    figures = ["figure4", "figure9"]
    asked = EvidenceRequest.of({**making, "figures": figures, "preset": "smoke"}, FIGURES)
    assert asked.storage == "postgresql://bench@host/bench"
    for name, settings in asked.settings(FIGURES).items():
        assert making.items() <= settings.items()
        request = Request.of(settings, name, FIGURES[name])
        assert request.view.name == "smoke"  # it changes no result
        plan = request.plan(FIGURES[name])
        made = [
            *map(Configuration.of, plan.runs[:1]),
            *(plan_sweep(settings).entries[0].at({}) for settings in plan.sweeps),
        ]
        assert {(one.sweep.executor, one.sweep.ray.num_gpus) for one in made} == {("ray", 0.25)}
        assert {one.sweep.storage for one in made} == {asked.storage}


def test_missing_runs_are_those_whose_identity_no_record_has(shown: Path, tmp_path: Path) -> None:
    """Single runs: counted again one by one, by the engine's identity, which hashes the data."""
    hidden = sorted(shown.glob("three_moons/smoke/*memory_unit*.json"))[::3]
    for path in hidden:
        path.unlink()
    there = {(r.identity, r.seed) for r in read_records([shown])}
    survey = survey_of("figure5", tmp_path / "store")
    wanted = []
    runs = [
        [*words, "preset=smoke"] for words in in_words(FIGURES["figure5"].plan("smoke", None).runs)
    ]
    twins = FIGURES["figure5"].control.untrained_runs_of(map(compose, runs), [])
    assert len(twins) == len(runs)
    for configuration in [*map(compose, runs), *twins]:
        names = identify(configuration).all
        if not any((name, configuration.seed) in there for name in names):
            wanted.append(configuration.seed)
    found = [run.configuration.seed for run in survey.reviews["figure5"].missing]
    assert sorted(found) == sorted(wanted)
    assert 0 < len(wanted) < 2 * len(runs)
    (candidate,) = survey.candidates
    assert candidate.claims == {r.claim.name for r in survey.reviews["figure5"].open}


def test_a_sweep_misses_final_runs_or_all_its_trials(shown: Path, tmp_path: Path) -> None:
    finals = [r for r in read_records([shown / "regbench"]) if r.role == "final"]
    (words, *_) = in_words(FIGURES["figure9"].plan("smoke", None).sweeps)
    entries = make_plan([*words, "preset=smoke"]).entries
    entry = next(e for e in entries if e.configuration.model == "gpt2")
    fixed = entry.configuration.tasks
    own = [r for r in finals if r.model == "gpt2" and r.config["tasks"] == fixed]
    seeds, trials = entry.configuration.sweep.seeds, entry.configuration.sweep.n_trials
    assert len(own) == seeds

    def missing() -> list[tuple[str, str, int]]:
        bench.runs.catalog._committed.cache_clear()
        runs = survey_of("figure9", tmp_path / "store").runs_of("figure9", {"preset": "smoke"})
        return [
            (run.configuration.model, run.role, run.configuration.seed)
            for run in runs
            if run.served is None
        ]

    before = missing()
    last = next(record for record in own if record.seed == max(r.seed for r in own))
    (shown / "regbench" / "smoke" / f"{last.run_id}.json").unlink()
    assert sorted(set(missing()) - set(before)) == [("gpt2", "final", last.seed)]
    for record in own:
        (shown / "regbench" / "smoke" / f"{record.run_id}.json").unlink(missing_ok=True)
    roles = [role for model, role, _ in missing() if model == "gpt2"]
    assert roles.count("trial") - [r for _, r, _ in before].count("trial") == min(
        trials, entry.settings
    )
    assert roles.count("final") == seeds


def test_a_store_is_judged_as_the_same_records_would_be_when_committed(
    shown: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs, predictors and the twins of controls, wherever a store keeps them."""
    before = survey_of("figure5", tmp_path / "empty")
    assert "reproduced" in before.verdicts.values()
    store = Store(tmp_path / "store")
    for path in shown.glob("three_moons/smoke/*.json"):
        record = read_record(path)
        write_record(record, store.record_folder(record.role))
        path.unlink()
    bench.runs.catalog._committed.cache_clear()
    survey = survey_of("figure5", store.root)
    assert survey.reviews["figure5"].missing == []
    assert survey.verdicts == before.verdicts
    names = {name for run in survey.reviews["figure5"].runs for name in run.identities}
    print_how_to_commit([r for r in survey.catalog.local if r.identity in names], store.root)
    first, *after = capsys.readouterr().out.partition("leaderboards.add")[2].splitlines()
    assert after == ["  python -m reproduce verdicts update=true && python -m leaderboards.build"]
    told = shlex.split(first)
    assert {Path(path).parent.name for path in told} == {"records", "controls"}
    assert all(Path(path).exists() for path in told)


def test_only_own_runs_that_a_figure_draws_on_have_it_planned_again(
    shown: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")

    def is_planned() -> bool:
        return bool(survey_of("figure5", tmp_path / "store").reviews["figure5"].runs)

    assert not is_planned()  # all of its claims are decided
    write_record(next(iter(read_records([shown / "regbench"]))), store.records)
    assert not is_planned()
    runs = FIGURES["figure5"].select(list(read_records([shown / "three_moons"])))
    own = next(record for record in runs if record.role == "single")
    write_record(own.model_copy(update={"seed": 77}), store.records)
    assert is_planned()

    # Some figures take the last made of each seed: an own run may replace a committed one.
    later = own.provenance.model_copy(update={"started_at": "2030-01-01T00:00:00+00:00"})
    write_record(own.model_copy(update={"provenance": later}), store.records)
    survey = survey_of("figure5", store.root)
    last_made = replace(FIGURES["figure5"], records=lambda found: latest(found, lambda r: r.seed))
    assert survey._draws_on_local(last_made)


def timed(lr: float, seconds: float, steps: int = 100) -> RunRecord:
    """A run of GPT2 on the bigram task that took so long."""
    words = ["tasks=bigram", "models=gpt2", f"training.lr={lr}", f"training.steps={steps}"]
    configuration = compose(words)
    cost = Cost(wall_seconds=seconds, training_steps=steps, training_flops=1e9 * steps)
    return make_record(
        task="bigram", model="gpt2", config=configuration.resolved(), cost=cost, seed=9
    )


def run_at(lr: float, **words: Any) -> PlannedRun:
    given = [f"{key.replace('__', '.')}={value}" for key, value in words.items()]
    words_of = ["tasks=bigram", "models=gpt2", f"training.lr={lr}", "training.steps=100", *given]
    configuration = compose(words_of)
    key = training_key(configuration.resolved(), configuration.seed)
    return PlannedRun(configuration, "single", key, key)


def test_seconds_are_those_of_the_setting_of_its_size_or_of_the_nearest_flops() -> None:
    speeds = Speeds([timed(1e-3, 10.0), timed(1e-3, 30.0), timed(1e-3, 20.0)])
    assert speeds.of(run_at(1e-3)).seconds == 20.0
    assert speeds.of(run_at(1e-3)).sources == ()
    other = speeds.of(run_at(3e-3, training__steps=200))  # twice the steps of the same size
    assert other.seconds in (20.0, 40.0, 60.0)  # twice those of one of the three
    assert "seconds a step as" in other.sources[0]
    wide = speeds.of(run_at(1e-3, models__width=256, models__layers=4))
    usual = run_at(1e-3).configuration.models
    ratio = (256 / usual["width"]) ** 2 * 4 / usual["layers"]
    assert wide.seconds / ratio in (10.0, 20.0, 30.0)
    assert "FLOPs as" in wide.sources[0]
    assert wide.low < wide.seconds < wide.high


def test_a_tiny_run_of_a_task_does_not_set_its_price() -> None:
    """Smoke lends its FLOPs; the pace is that of the model's steps of the size that is planned."""

    def made(task: str, preset: str, seconds: float, flops: float, **changes: Any) -> RunRecord:
        words = [f"tasks={task}", "models=lstm", f"preset={preset}"]
        resolved = compose(words).resolved()
        steps = resolved["training"]["steps"]
        tokens = 1000 * steps
        cost = Cost(
            wall_seconds=seconds * steps,
            training_steps=steps,
            training_flops=flops * steps,
            training_tokens=tokens,
        )
        return make_record(
            task=task, model="lstm", preset=preset, config=resolved, cost=cost, seed=9, **changes
        )

    configuration = compose(["tasks=state_tracking", "models=lstm", "preset=laptop"])
    key = training_key(configuration.resolved(), 0)
    run = PlannedRun(configuration, "single", key, key)
    # 0.1 s for a step of 20 MFLOPs, most of it validations and overhead; a step of the preset has
    # 32 times as many FLOPs, near those that another task was trained with, at 0.04 s.
    tiny = made("state_tracking", "smoke", 0.1, 2e7)
    other = made("regbench", "smoke", 0.04, 8e8)
    far = made("wikipedia", "laptop", 2.0, 1e11)
    cost = Speeds([tiny, other, far]).of(run)
    steps = configuration.training.steps or 0
    assert cost.seconds == pytest.approx(steps * 32 * 2e7 * 0.04 / 8e8)
    assert tiny.run_id in cost.sources[0]
    assert other.run_id in cost.sources[0]
    assert cost.low < steps * 0.04 < cost.high
    # Without any run of the task, its step is as large as in the middle of the others.
    middle = made("regbench", "laptop", 0.05, 9e8)
    never = Speeds([other, far, middle]).of(run).seconds
    assert steps * 0.01 < never < steps * 1.0


def test_order_is_by_verdicts_an_hour_and_pays_a_training_once() -> None:
    """Every step has the best rate of all that are left, counted by hand."""
    lrs = [1e-3 * k for k in range(1, 7)]
    draw = random.Random(0)
    seconds = {lr: draw.uniform(10, 500) for lr in lrs}
    speeds = Speeds([timed(lr, seconds[lr]) for lr in lrs])
    survey: Any = SimpleNamespace(speeds=speeds, catalog=SimpleNamespace(weights=set()))
    runs = {lr: run_at(lr) for lr in lrs}
    chosen = {
        f"figure{k}": (draw.sample(lrs, 3), frozenset(f"c{i}" for i in range(draw.randint(1, 4))))
        for k in range(5)
    }

    def asked(name: str, lr: float) -> PlannedRun:
        """Two of the figures measure the same weights in ways of their own."""
        return replace(runs[lr], key=f"{name} {lr}") if name > "figure2" else runs[lr]

    candidates = [
        Candidate(name, {"preset": "smoke"}, tuple(asked(name, lr) for lr in own), claims)
        for name, (own, claims) in chosen.items()
    ]
    steps = in_order(survey, candidates)
    assert len(steps) == len(candidates)
    paid: set[float] = set()
    made: set[str] = set()
    left = dict(chosen)

    def rate(name: str) -> float:
        own, claims = left[name]
        return len(claims) / max(1.0, sum(seconds[lr] for lr in own if lr not in paid))

    for step in steps:
        best = max(map(rate, left))
        assert rate(step.candidate.figure) == pytest.approx(best)
        keys = {run.key for run in step.candidate.runs}
        assert step.runs == len(keys - made)
        made |= keys
        paid |= set(left.pop(step.candidate.figure)[0])
    assert sum(step.cost.seconds for step in steps) == pytest.approx(
        sum(seconds[lr] for lr in paid)
    )


def test_time_over_is_a_ctrl_c_that_the_clock_remembers() -> None:
    with clock(None) as endless, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not endless.over
    with clock(0.1 / 3600) as short, pytest.raises(KeyboardInterrupt):
        time.sleep(60)
    assert short.over


def test_when_time_is_over_the_command_ends_well(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    # 36 ms: a fast machine makes all the runs in a third of a second.
    words = ["preset=smoke", "figures=scaling_laws", f"store={tmp_path}", "hours=0.00001"]
    assert main(read(words), FIGURES) == OK
    assert "time is over" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("preset=lapto", "did you mean 'laptop'"),
        ("workers=many", "workers=many is not a number of processes"),
        ("workers=-1", "workers=-1 is not a number of processes"),
        ("hours=0", "hours=0 is not a time above 0"),
        ("hours=soon", "hours=soon is not a time above 0"),
        ("figures=[figure99]", "there is no reproduction 'figure99'"),
        ("dry_run=perhaps", "dry_run=perhaps is neither true nor false"),
        ("hour=3", "'hour=3' is known to none of these figures: did you mean 'hours'"),
    ],
)
def test_a_wrong_word_gets_one_sentence(word: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        main(read([f"store={tmp_path}", "figures=figure5", word]), FIGURES)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.processes
@pytest.mark.long
def test_what_was_killed_goes_on_and_repeats_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9 at a random moment of a plan that nothing is committed for, then the same again."""
    words = ["preset=smoke", "figures=scaling_laws", f"store={tmp_path}"]
    killed = commands.start("-m", "reproduce", "evidence", *words)
    records = Store(tmp_path).records
    deadline = time.monotonic() + 120
    while not list(records.glob("*.json")) and time.monotonic() < deadline:
        assert killed.poll() is None
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.1))
    killed.kill()
    killed.wait()
    before = {path: path.stat().st_mtime_ns for path in records.glob("*.json")}
    assert before
    assert main(read(words), FIGURES) == OK
    said = capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    plan = FIGURES["scaling_laws"].plan("smoke", None)
    made = [r for r in read_records([records]) if r.role != "baseline"]
    assert len(made) == len(in_words(plan.runs))
    if len(before) < len(made):  # it was not quicker than the kill
        assert "not enough evidence -> " in said
        assert "python -m leaderboards.add" in said
    assert not RecordCatalog("smoke", Store(tmp_path)).weights


def test_what_a_smaller_preset_asks_too_is_open_here() -> None:
    """RegBench has N = 500 at smoke and at laptop, and runs of smoke decide nothing at laptop."""
    claim, figure9 = FIGURES["figure9"].claims[0], FIGURES["figure9"]
    results = tuple(ClaimResult(claim, not_asked("N = 500", "no runs", p)) for p in PRESETS)
    request = Request.of({"preset": "laptop"}, "figure9", figure9)
    review = Review("figure9", figure9, request, results, ())
    assert [result.finding.asked_at for result in review.open] == ["smoke", "laptop"]
