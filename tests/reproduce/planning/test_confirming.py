"""Claims that were set after their runs, put to new seeds: which runs are planned, and what these
say by themselves."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import bench.runs.catalog
from bench.records.schema import RunRecord, read_records, write_record
from bench.records.store import Store
from core.errors import UserError
from reproduce.__main__ import reproductions
from reproduce.claims.frozen import read_frozen
from reproduce.claims.repeats import moment
from reproduce.planned import PlannedRun
from reproduce.planning.command import EvidenceRequest
from reproduce.planning.confirming import SurveyAlone
from reproduce.planning.survey import in_order
from tests.committed import copied_folder

FIGURE = "gradient_memory"  # five measurements of a seed each, seconds long
EXPERIMENT = reproductions()[FIGURE]


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RunRecord]]:
    """The committed records of the figure's own plan alone, without those of later seeds."""
    packed, folder = tmp_path / "packed", tmp_path / "committed"
    copied_folder(f"{FIGURE}/laptop", packed)
    planned = {run["seed"] for run in EXPERIMENT.plan("laptop", None).runs}
    folder.mkdir()
    for record in read_records([packed]):
        if record.seed in planned:
            write_record(record, folder)
    monkeypatch.setattr(bench.runs.catalog, "COMMITTED", folder)
    bench.runs.catalog._committed.cache_clear()
    yield list(EXPERIMENT.select(list(read_records([folder]))))
    bench.runs.catalog._committed.cache_clear()


def survey_in(store: Path) -> SurveyAlone:
    settings = {"preset": "laptop", "store": str(store), "workers": 0}
    return SurveyAlone({FIGURE: EXPERIMENT}, {FIGURE: settings}, "laptop", store)


def described(records: list[RunRecord]) -> set[str]:
    """Claims that were set after the first of the records had begun, by the file of claims."""
    first = min(record.provenance.started_at for record in records)
    entries = read_frozen()[FIGURE]
    return {name for name, entry in entries.items() if moment(entry.since) >= moment(first)}


def made_as(run: PlannedRun, earlier: RunRecord, store: Path) -> None:
    """A record of a planned run with what an earlier one found."""
    seed = run.configuration.seed
    now = datetime.now(UTC).isoformat()
    record = earlier.model_copy(
        update={
            "seed": seed,
            "run_id": f"{earlier.run_id.rpartition('-s')[0]}-s{seed}",
            "identity": run.identities[0],
            "config": run.configuration.resolved(),
            "provenance": earlier.provenance.model_copy(update={"started_at": now}),
        }
    )
    write_record(record, Store(store).records)


def test_the_plan_has_as_many_new_seeds_as_the_figure(
    committed: list[RunRecord], tmp_path: Path
) -> None:
    survey = survey_in(tmp_path / "store")
    (candidate,) = survey.candidates
    assert candidate.claims == described(committed)
    assert len(candidate.claims) > 5
    seeds = [run.configuration.seed for run in candidate.runs]
    planned = {run["seed"] for run in EXPERIMENT.plan("laptop", None).runs}
    assert len(set(seeds)) == len(planned)
    assert min(seeds) > max(record.seed for record in committed)
    assert set(survey.verdicts.values()) == {"not asked again"}
    (step,) = in_order(survey, survey.candidates)
    assert step.runs == len(seeds)


def test_new_runs_are_judged_alone_and_only_when_all_are_there(
    committed: list[RunRecord], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    (candidate,) = survey_in(store).candidates
    by_seed = {record.seed: record for record in committed}
    first, *others = candidate.runs
    for run in others:
        made_as(run, by_seed[run.configuration.seed % len(by_seed)], store)
    partly = survey_in(store)
    assert set(partly.verdicts.values()) == {"not asked again"}
    assert [run.key for run in partly.candidates[0].runs] == [first.key]
    made_as(first, by_seed[first.configuration.seed % len(by_seed)], store)
    whole = survey_in(store)
    assert whole.candidates == []
    # The new runs say what the earlier ones said, so they say it by themselves, too.
    assert {name for _, name in whole.verdicts} == described(committed)
    assert set(whole.verdicts.values()) == {"confirmed"}


def test_other_settings_are_refused(tmp_path: Path) -> None:
    settings = {"preset": "laptop", "store": str(tmp_path), "workers": 0, "training.lr": 1e-3}
    with pytest.raises(
        UserError, match=r"training\.lr=0\.001 makes other runs than those by which"
    ):
        SurveyAlone(
            {"figure5": reproductions()["figure5"]}, {"figure5": settings}, "laptop", tmp_path
        )


def test_a_page_is_of_open_claims() -> None:
    words = {"dry_run": True, "confirm": True, "page": "open.md", "figures": [FIGURE]}
    with pytest.raises(UserError, match="page= is about open claims"):
        EvidenceRequest.of(words, {FIGURE: EXPERIMENT})
    with pytest.raises(UserError, match="confirm=1 is neither true nor false"):
        EvidenceRequest.of({"confirm": 1}, {FIGURE: EXPERIMENT})
