"""Submissions and their verification, with the engine asked in this process."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import train
from bench.records.command import places_of, words_of
from bench.records.counted import Counted, contradiction
from bench.records.equivalence import current_name
from bench.records.identity import canonical_record
from bench.records.schema import RunRecord, as_file, make_run_id, read_record
from bench.records.spread import spread_of
from bench.records.store import COMMITTED
from bench.runs.recounting import recount
from core.errors import UserError
from leaderboards import verify as command
from leaderboards.checks.admission import check, left_open, take
from leaderboards.checks.agreement import SharedStatements
from leaderboards.submit import main as submit
from leaderboards.tables.builder import build_board
from leaderboards.tables.status import (
    Check,
    Verification,
    VerificationStatuses,
    earlier_verification,
    path_of,
    read_verification,
    write_verification,
)
from leaderboards.tables.summaries import SUBMITTED, summary_of
from leaderboards.verification import rerun as again
from leaderboards.verification.messages import holds, lines_about
from leaderboards.verification.submission import read_submission
from leaderboards.verification.targets import records_named
from tests.committed import committed_paths, seeds_beside
from tests.configurations import compose
from tests.leaderboards.conftest import record as made_up
from tests.leaderboards.forging.changes import Content, identify
from tests.leaderboards.forging.generated import generated
from tests.leaderboards.sending import SAID, current, sealed
from tests.leaderboards.verification.engine import in_this_process

RUN = ["tasks=state_tracking", "models=lstm", "preset=smoke", "seed=7", "device=cpu"]
# Trained, trained and restarted, measured, and a predictor.
BASES = ("state_tracking/smoke/*", "three_moons/smoke/*", "in_context_regression_memories/smoke/*")
BASES += ("in_context_regression/smoke/*",)


def refusal(path: Path, others: Sequence[RunRecord], counted: Counted | None = None) -> str:
    """Why a record is refused, by reading it among others or by counting again; "" if it is not."""
    together = SharedStatements()
    try:
        for other in others:
            together.take(other)
        record = read_record(path)
        take(together, record)
    except UserError as error:
        return str(error)
    return contradiction(record, counted or recount(record)) or ""


def test_300_generated_forgeries_are_refused(tmp_path: Path) -> None:
    escaped = []
    for base, role in zip(BASES, ("", "", "", "baseline"), strict=True):
        source = current(base, role)
        honest = read_record(source)
        others = [check(read_record(path)) for path in seeds_beside(source)]
        counted = recount(honest)
        assert not refusal(source, others, counted)
        parts = {name: getattr(honest, name) for name in ("task", "model", "preset")}
        for forgery in generated(honest.model_dump(mode="json"), 75, seed=1):
            content = json.loads(as_file(source))
            forgery.change(content)
            if forgery.identified:
                identify(content)
            again = {"identity": content["identity"], "seed": content["seed"]}
            content["run_id"] = make_run_id(**parts, **again)
            of_config = forgery.named.startswith("config.")
            path = sealed(content, tmp_path)
            why = refusal(path, others, None if of_config else counted)
            if not why or "\n" in why:
                escaped.append((base, forgery.named, why))
    assert not escaped


@pytest.mark.parametrize(
    ("items", "code", "identified", "named"),
    [
        (False, "0" * 64, False, "its identity is not"),
        (False, "0" * 64, True, "the mean of per_sequence.accuracy"),
        (True, None, False, "its cost.parameters is 1, and the model of its config has"),
    ],
)
def test_the_forged_record_of_rank_1_is_refused_with_the_reason(
    items: bool, code: str | None, identified: bool, named: str, tmp_path: Path
) -> None:
    """Accuracy 0.9999, one parameter, a code of zeros, sealed again; and with more worked out."""
    path = _first_of_all(items, code, identified, tmp_path)
    assert named in refusal(path, [])


def test_a_forgery_by_code_that_nobody_has_stays_reported(tmp_path: Path) -> None:
    """It agrees with itself, so it is shown; what cannot be counted again is nowhere ranked."""
    record = read_record(_first_of_all(True, "0" * 64, True, tmp_path))
    check(record)
    assert "made by other code than is here" in recount(record).refused
    assert left_open(record) == "its code is neither here nor proven equal"


def _learned(content: Content) -> None:
    """Let all that tells of the positions behind the training length be 0.9999."""
    for name, values in content["per_sequence"].items():
        if name != "accuracy/1x":
            content["metrics"]["test"][name] = 0.9999
            content["per_sequence"][name] = [0.9999] * len(values)
    curve, known = content["curves"]["accuracy_by_position"], content["config"]["tasks"]["length"]
    curve["y"][known:] = [0.9999] * len(curve["y"][known:])


def _first_of_all(items: bool, code: str | None, identified: bool, folder: Path) -> Path:
    content = json.loads(as_file(current("state_tracking/smoke/*")))
    content["headline"]["value"] = content["metrics"]["test"]["accuracy"] = 0.9999
    content["cost"]["parameters"] = 1
    if items:
        _learned(content)
    content["provenance"]["model_code"] = code or content["provenance"]["model_code"]
    if identified:
        identify(content)
        parts = ("task", "model", "preset", "identity", "seed")
        before, content["run_id"] = (
            content["run_id"],
            make_run_id(**{name: content[name] for name in parts}),
        )
        for trial in (content["study"] or {}).get("trials", []):  # a careful forger's study agrees
            if trial["run_id"] == before:
                trial["run_id"] = content["run_id"]
    return sealed(content, folder)


def test_the_command_of_a_record_asks_for_exactly_its_run() -> None:
    """By Hydra's own composition; every twentieth record that is committed."""
    seen: set[str] = set()
    paths = committed_paths("*/*/*")
    for path in paths[::20]:
        record = read_record(path)
        today = current_name(record.config, record.provenance)
        if record.identity in seen or today is None:
            continue
        seen.add(record.identity)
        words = words_of(record)
        assert not [word for word in words if word.startswith("store=") or "PATH" in word]
        if record.role == "baseline":
            assert "predictors=true" in words
            continue
        made = compose(words)
        assert made.resolved() == today.config
        assert made.seed == record.seed
        assert made.device == "cpu" or record.provenance.device_class != "cpu"
        assert all(place.removeprefix("tasks.") in made.locations for place in places_of(record))
    assert len(seen) > 10


def test_a_true_submission_is_run_again_and_a_false_one_is_not_the_same_run(
    engine: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    in_this_process("bench.train", [*RUN, "store=there"])
    (made,) = Path("there/records").glob("*.json")
    assert submit([str(made), "to=ada", *SAID]) == 0
    statement, (record,) = read_submission(Path("ada"))
    assert statement.who == "Ada"
    assert statement.sources[record.config["models"]["_target_"]].sha256
    # Beside the folder that was sent, and not in the checkout that verifies.
    assert [sent.to for sent in records_named("ada", Path("runs"))] == [
        Path.cwd() / "verifications"
    ]
    capsys.readouterr()
    assert command.main(["ada", "to=found", "store=here", "by=Grace", "report=moves.md"]) == 0
    said = capsys.readouterr().out
    assert f"{record.run_id}: re-run" in said
    assert said.endswith("what was found lies in found\n")
    assert "re-scored: within: accuracy" in said
    assert "re-run: within: accuracy" in said
    found = read_verification(path_of(record, Path("found")))
    assert [found.level, found.checks[-1].by, found.machines] == ["re-run", "Grace", 1]
    assert found.checks[-1].found == record.headline.value
    moves = Path("moves.md").read_text()
    assert "| `LSTM` |" in moves
    assert "re-run: within: accuracy" in moves
    # By somebody else it is a replication.
    assert command.main(["ada", "to=found", "store=here", "by=Marie"]) == 0
    assert read_verification(path_of(record, Path("found"))).level == "replicated"

    # Equal weights give equal numbers, beside the headline too.
    content = json.loads(made.read_bytes())
    content["curves"]["training_loss"]["y"][0] += 0.5
    assert submit([str(sealed(content, Path("curved/records"))), "to=mallory", *SAID]) == 0
    capsys.readouterr()
    assert command.main(["mallory", "to=curves", "store=here"]) == 4
    told = "its curves.training_loss is not what the same run gives here"
    assert told in capsys.readouterr().out

    # A made-up run that agrees with itself is not the run that its command makes.
    content = json.loads(made.read_bytes())
    content["headline"]["value"] = 0.9999
    _learned(content)
    assert submit([str(sealed(content, Path("lie/records"))), "to=eve", *SAID]) == 0
    capsys.readouterr()
    assert command.main(["eve", "to=lies", "store=here"]) == 4
    assert "re-run: OUTSIDE: accuracy 0.9999 recorded" in capsys.readouterr().out
    lie = read_verification(next(Path("lies").rglob("*.json")))
    assert lie.level == "consistent"
    # Its row is shown below every verified one, without a rank.
    own = [read_record(p) for p in committed_paths("state_tracking/*/*")]
    other = read_record(Path("eve/records") / made.name)
    board = build_board(own, submitted=[other], statuses=VerificationStatuses.of([lie]))
    shown = [row for row in board.rows if row.headline]
    last = next(row for row in shown if other.run_id in row.run_ids)
    group = [
        r
        for r in shown
        if r.group == last.group and r.kind in ("measured", "unverified") and r.mean is not None
    ]
    assert group[-1] is last
    assert (last.kind, last.rank_best) == ("unverified", None)  # its setting is a committed one
    assert "outside the spread" in last.checked


def test_a_package_is_imported_only_where_it_is_named(
    engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record says that it was made by a class of a package that lies where the verifier is."""
    (tmp_path / "their_package.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    source = current("state_tracking/smoke/*", "final")
    record = read_record(source)
    config = {**record.config, "models": {"_target_": "their_package.Model", "width": 3}}
    theirs = record.model_copy(update={"config": config, "model": "Model"})
    said = again.Bench(tmp_path / "here").run(theirs)
    assert "imported only if you name it by package=" in str(said)
    counted = recount(theirs)
    assert counted.data == record.provenance.data
    assert counted.cost is None
    assert isinstance(again.Bench(tmp_path / "here").score(theirs, source), str)
    tasks = {**record.config["tasks"], "_target_": "their_package.Task"}
    of_task = record.model_copy(update={"config": {**record.config, "tasks": tasks}})
    assert isinstance(again.Bench(tmp_path / "here").run(of_task), str)
    with pytest.raises(SystemExit, match="imported"):
        again.Bench(tmp_path / "here", "their_package").run(theirs)


def test_a_run_on_data_of_its_own_asks_for_their_place() -> None:
    prompts = read_record(committed_paths("story_prompts/laptop/*-s0")[0])
    never = again.Bench(Path("unused"), command=lambda *asked: pytest.fail("it ran"))
    assert "give tasks.stories=PLACE" in str(never.run(prompts))
    asked: list[str] = []

    def listen(module: str, words: Sequence[str], limit: float) -> again.Ended:
        asked.extend(words)
        return again.Ended(1, "enough")

    told = again.Bench(Path("unused"), places={"tasks.stories": "here"}, command=listen)
    assert not told.lacks(prompts)
    told.run(prompts)
    assert 'tasks.stories="here"' in asked
    asked.clear()  # a task that reads no stories is not asked to
    told.run(read_record(current("regbench/smoke/*", "final")))
    assert "tasks=regbench" in asked
    assert not [word for word in asked if word.startswith("tasks.stories")]


def test_the_spread_holds_what_seeds_explain_as_often_as_it_says() -> None:
    """Two draws of one normal distribution differ by more than the bound in one of a hundred."""
    draw = random.Random(0)

    def drawn(record: RunRecord) -> RunRecord:
        headline = record.headline.model_copy(update={"value": draw.gauss(0.5, 0.01)})
        return record.model_copy(update={"headline": headline})

    for settings, seeds in ((1, 3), (6, 2)):
        missed = 0
        blank = [made_up(width=8 * n + 8, seed=s) for n in range(settings) for s in range(seeds)]
        for _ in range(2000):
            records = [drawn(record) for record in blank]
            one, other = draw.gauss(0.5, 0.01), draw.gauss(0.5, 0.01)
            spread = spread_of(records[0], records)
            missed += not spread.holds(one, other)
        assert math.isclose(missed / 2000, 0.01, abs_tol=0.008)
    data = [made_up(accuracy=0.1 * n, task_settings={"data_seed": n}) for n in range(1, 4)]
    assert spread_of(data[0], [*data, *records]).source.endswith("3 seeds of its setting")
    equal = [made_up(accuracy=0.9, seed=n) for n in range(3)]  # as counted items may be
    others = [made_up(accuracy=0.1 * n, width=72, seed=n) for n in range(3)]
    assert spread_of(equal[0], [*equal, *others]).bound > 0.1
    assert spread_of(equal[0], equal).bound == pytest.approx(1e-6)
    predictor = made_up(role="baseline")
    assert spread_of(predictor, records).bound == pytest.approx(1e-6)
    assert spread_of(made_up(), []).bound == pytest.approx(1e-6)
    assert not spread_of(records[0], records).holds(0.5, None)


def test_levels_follow_from_checks_and_from_nothing_else(tmp_path: Path) -> None:
    record = made_up()
    fields: dict[str, Any] = {"at": "2026-01-01T00:00:00+00:00", "libraries": {}}

    def done(level: Any, passed: bool = True, device: str = "a", **more: Any) -> Check:
        return Check(level=level, passed=passed, device=device, **fields, **more)

    blank = earlier_verification(record, tmp_path)
    assert blank.level == "reported"
    consistent = blank.with_check(done("consistent"))
    assert consistent.level == "consistent"
    assert consistent.model_copy(update={"open": "no items"}).level == "reported"
    assert consistent.with_check(done("re-scored")).level == "re-scored"
    once = consistent.with_check(done("re-run", made="0" * 64))
    assert (once.level, once.machines) == ("re-run", 1)
    assert once.with_check(done("re-run", made="1" * 64)).level == "re-run"
    twice = once.with_check(done("re-run", device="b"))
    assert (twice.level, twice.machines) == ("replicated", 2)
    assert consistent.with_check(done("re-run", passed=False)).level == "consistent"
    people = [consistent.with_check(done("re-run", by=by, made="0" * 64)) for by in ("", "Ada")]
    both = people[0].with_check(done("re-run", by="Ada", made="0" * 64))
    assert (both.level, both.machines) == ("re-run", 1)  # one machine, and one person with a name
    both = both.with_check(done("re-run", by="Bob", made="0" * 64))
    assert (both.level, both.machines) == ("replicated", 2)
    numbers = {"recorded": 0.5, "bound": 0.1}
    for found, outside in ((0.5, False), (0.55, False), (0.7, True), (None, True)):
        check = done("re-run", passed=False, found=found, told="the code is other", **numbers)
        assert check.is_outside is outside
    assert not done("re-scored", passed=False, found=0.9, **numbers).is_outside
    assert not done("re-run", passed=False, told="it did not run").is_outside
    write_verification(twice, path_of(record, tmp_path))
    assert earlier_verification(record, tmp_path) == twice
    assert (
        earlier_verification(made_up(accuracy=0.5), tmp_path).level == "reported"
    )  # another record of that name
    one, other = summary_of(record), summary_of(made_up(seed=1))
    words = VerificationStatuses.of([twice]).of_row([one, other]).words
    assert words == "reported, 1 of 2 seeds re-run"
    assert VerificationStatuses().of_row([one]).verified
    sent, known = summary_of(record, SUBMITTED), VerificationStatuses.of([once])
    assert not VerificationStatuses().of_row([sent]).verified
    assert known.of_row([sent]).verified
    of_that_name = summary_of(made_up(accuracy=0.5), SUBMITTED)
    assert not known.of_row([of_that_name]).verified


def test_what_could_not_be_counted_is_nothing_against_a_run_that_was_made_again() -> None:
    fields: dict[str, Any] = {"at": "2026-01-01T00:00:00+00:00", "libraries": {}, "device": "a"}
    rounded = Check(level="consistent", passed=False, told="another hash", **fields)
    made = Check(level="re-run", passed=True, **fields)
    blank = Verification(run_id="a", record_sha256="0" * 64)
    assert holds(blank.with_check(rounded).with_check(made), "re-run")
    assert not holds(blank.with_check(rounded), "consistent")
    outside = Check(level="re-run", passed=False, **fields)
    assert not holds(blank.with_check(made).with_check(outside), "re-run")
    scored = Check(level="re-scored", passed=False, **fields)
    assert not holds(blank.with_check(scored).with_check(made), "re-run")


def test_committed_verifications_are_of_committed_records() -> None:
    from leaderboards.tables.status import FOLDER

    for path in sorted(FOLDER.rglob("*.json")):
        found = read_verification(path)
        record = read_record(COMMITTED / path.relative_to(FOLDER))
        assert found.record_sha256 == record.content_hash(), path


def test_predictors_are_made_again_by_a_command_of_their_own(engine: None, tmp_path: Path) -> None:
    record = read_record(current("in_context_regression/smoke/*", "baseline"))
    made = again.Bench(tmp_path).run(record)
    assert isinstance(made, RunRecord)
    # The same run: its code is what is here, to which the recorded one is proven equal.
    assert canonical_record(made).identity == canonical_record(record).identity
    assert spread_of(record, []).holds(record.headline.value, made.headline.value)
    with pytest.raises(UserError, match="predictors are no model"):
        train.main([*RUN, "predictors=true"])


@pytest.mark.parametrize(("bound", "wide"), [(0.455, True), (0.01, False)])
def test_a_bound_within_which_nearly_anything_lies_says_so(bound: float, wide: bool) -> None:
    own = {"level": "re-run", "passed": True, "at": "2026-11-25", "device": "cpu", "libraries": {}}
    numbers = {"recorded": 1.0, "found": 0.995, "bound": bound, "bound_from": "3 seeds"}
    check = Check.model_validate({**own, **numbers})
    record = made_up()
    found = Verification(run_id=record.run_id, record_sha256="0" * 64, checks=[check])
    (line,) = (line for line in lines_about(record, found, "re-run") if "re-run: within" in line)
    assert ("so wide that being within tells little" in line) is wide
