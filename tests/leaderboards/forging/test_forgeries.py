"""Records that say what is not so: copies of committed ones, changed and sealed again."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.records.equivalence import Code, names
from bench.records.provenance import sha256_of
from bench.records.schema import RunRecord, as_file, make_run_id, read_record
from core.errors import UserError
from leaderboards import add
from leaderboards.checks import admission
from leaderboards.checks.admission import check, take
from leaderboards.checks.agreement import SharedStatements
from tests.committed import committed_paths, copied, seeds_beside
from tests.leaderboards.forging.changes import (
    TRAINED,
    Change,
    Content,
    Forgery,
    headline,
    identify,
    put,
    several,
)
from tests.leaderboards.forging.forgeries import ASKED, FORGERIES, MEASURED, PREDICTOR, A, B


def first(pattern: str) -> Path:
    found = committed_paths(pattern)
    return next(path for path in found if read_record(path).role != "control")


def sealed(content: Content, folder: Path) -> Path:
    """The record as a file, with the hash of its own content."""
    content.pop("content_sha256", None)
    path = folder / f"{content['run_id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "content_sha256": sha256_of(content)}))
    return path


def forged(forgery: Forgery, folder: Path) -> Path:
    """The forged record, below ``folder``."""
    source = first(forgery.of)
    content = json.loads(as_file(source))
    parts = ("task", "model", "preset", "identity", "seed")
    before = {name: content[name] for name in (*parts, "run_id")}
    forgery.change(content)
    if forgery.identified:
        identify(content)
    if content["run_id"] == before["run_id"]:
        content["run_id"] = make_run_id(**{name: content[name] for name in parts})
    return sealed(content, folder / "forged")


@cache
def honest(pattern: str) -> list[RunRecord]:
    """The other seeds of a record, which were committed beside it."""
    source = first(pattern)
    return [check(read_record(path)) for path in seeds_beside(source) if path != source]


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed are those records alone that these tests begin with, and their other seeds: a task
    has hundreds, which takes ten seconds to check."""
    for pattern in (TRAINED, PREDICTOR, MEASURED, ASKED):
        copied(seeds_beside(first(pattern)), tmp_path / "few")
    monkeypatch.setattr(admission, "COMMITTED", tmp_path / "few")


def submit(path: Path, others: Iterable[RunRecord]) -> set[str]:
    """What the board does with a file after these records."""
    together = SharedStatements()
    for record in others:
        together.take(record)
    return take(together, read_record(path))


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_record_is_refused_in_one_sentence_that_names_what(
    forgery: Forgery, tmp_path: Path
) -> None:
    path = forged(forgery, tmp_path)
    with pytest.raises(UserError) as refusal:
        submit(path, honest(forgery.of))
    assert forgery.named in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["a tenth of the FLOPs", "half of the parameters", "half of the work"]
)
def test_runs_on_data_of_other_seeds_refute_a_forged_size(name: str, tmp_path: Path) -> None:
    """At laptop each seed has data of its own, so that no other record has its identity."""
    forgery = FORGERIES[name]
    pattern = TRAINED.replace("smoke", "laptop")
    path = forged(forgery._replace(of=pattern), tmp_path)
    paths = committed_paths(f"{pattern[:-3]}-s?")
    others = [one for one in map(read_record, paths) if one.role == "final" and one.seed != 1]
    assert len(others) > 1
    with pytest.raises(UserError, match=forgery.named):
        submit(path, others)


@pytest.mark.parametrize("pattern", sorted({forgery.of for forgery in FORGERIES.values()}))
def test_what_the_forgeries_are_made_of_is_honest(pattern: str, tmp_path: Path) -> None:
    path = forged(Forgery(pattern, lambda content: None, ""), tmp_path)
    submit(path, honest(pattern))


def seed(number: int, **changes: Any) -> Change:
    """The same run under another seed, with a bad accuracy, in the metrics as in the items."""
    return several(put("seed", number), *(put(k.replace("__", "."), v) for k, v in changes.items()))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (seed(100), "seed with its weights_sha256"),
        (seed(101, weights_sha256=A), "curve 'training_loss'"),
        (
            seed(102, weights_sha256=B, curves__training_loss__y=lambda y: [v + 1e-3 for v in y]),
            "seed with its metrics",
        ),
        (
            several(
                seed(100, weights_sha256=B, cost__parameters=lambda old: old + 1),
                put("curves.training_loss.y", lambda y: [v + 1e-3 for v in y]),
            ),
            "cost.parameters",
        ),
    ],
)
def test_a_seed_slipped_under_an_honest_identity_is_no_copy(
    change: Change, named: str, tmp_path: Path
) -> None:
    path = forged(Forgery(TRAINED, change, named), tmp_path)
    with pytest.raises(UserError, match=named):
        submit(path, [*honest(TRAINED), read_record(first(TRAINED))])


def test_a_run_is_not_made_again_by_another_setting_under_another_name(tmp_path: Path) -> None:
    """Its weights, curves and metrics stay; the setting that nobody ran would be one more row."""
    changed = Forgery(TRAINED, put("config.training.weight_decay", 0.2), "", identified=True)
    path = forged(changed, tmp_path)
    with pytest.raises(UserError, match="weight decay or betas with its weights_sha256"):
        submit(path, [*honest(TRAINED), read_record(first(TRAINED))])
    of_trial = changed._replace(of=TRAINED.removesuffix("1") + "0")
    with pytest.raises(UserError, match="seed of its study's trials, and is none of them"):
        submit(forged(of_trial, tmp_path), [])


@pytest.mark.usefixtures("few")
def test_records_that_are_added_elsewhere_agree_with_the_committed_ones(tmp_path: Path) -> None:
    changed = Forgery(TRAINED, seed(100), "")
    path = forged(changed, tmp_path)
    with pytest.raises(UserError, match="with which it must agree"):
        add.main([str(path), f"to={tmp_path / 'elsewhere'}"])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.usefixtures("few")
def test_a_predictor_has_the_score_of_the_committed_one(tmp_path: Path) -> None:
    """It was never trained: whoever runs it again has the same number, rounded otherwise."""
    near, far = (
        several(
            headline(value, items=True), put("curves.accuracy.y", lambda y, v=value: [v] * len(y))
        )
        for value in (read_record(first(PREDICTOR)).headline.value + 1e-5, 0.97)
    )
    honest_again = forged(Forgery(PREDICTOR, near, ""), tmp_path / "near")
    assert add.main([str(honest_again), f"to={tmp_path / 'to'}"]) == 0
    with pytest.raises(UserError, match="its headline, of a predictor of these data, is not as in"):
        add.main([str(forged(Forgery(PREDICTOR, far, ""), tmp_path)), f"to={tmp_path / 'other'}"])


def test_a_run_of_equal_code_has_the_same_weights(tmp_path: Path) -> None:
    """Else an earlier run by proven code would stand in for an honest one, whatever it says."""
    record = next(
        r
        for r in map(read_record, committed_paths("*/*/*-s1"))
        if r.role != "control"
        and r.weights_sha256
        and len(list(names(Code.of(r.config, r.provenance), r.config))) > 1
    )
    own = Code.of(record.config, record.provenance)
    other = next(n for n in names(own, record.config) if n.code != own)

    def made_before(content: Content) -> None:
        content["config"] = other.config
        codes = {"model_code": other.code.model_code, "task_code": other.code.task_code}
        content["provenance"] |= codes | {"started_at": "2024-06-01T00:00:00+00:00"}
        content["weights_sha256"] = A

    place = f"{record.task}/{record.preset}/{record.run_id}"
    path = forged(Forgery(place, made_before, "", True), tmp_path)
    with pytest.raises(UserError, match="weights_sha256 by equal code"):
        submit(path, [record])


@pytest.mark.usefixtures("few")
def test_add_says_what_it_checked_and_what_it_could_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was never made, whose record agrees with itself and the others, is told from none:
    so it is said that nothing was run again."""
    source = first(TRAINED)
    assert add.main([str(source), f"to={tmp_path / 'to'}"]) == 0
    said = capsys.readouterr().out
    assert "not checked: that it was run at all" in said
    # By the committed ones, wherever it is put.
    assert "number of parameters by other records" in said.partition("not checked")[0]
    copied = forged(Forgery(TRAINED, seed(100), ""), tmp_path)
    with pytest.raises(UserError, match="weights_sha256"):
        add.main([str(copied), f"to={tmp_path / 'to'}"])
    capsys.readouterr()
    for of, metric, part in ((MEASURED, "recall", 0), (ASKED, "accuracy_after", 2)):
        assert add.main([str(first(of)), f"to={tmp_path / 'to'}"]) == 0
        parts = capsys.readouterr().out.partition("not checked")
        assert f"{metric} from what the record says" in parts[part]


@pytest.mark.usefixtures("few")
def test_add_says_what_a_record_tells_of_a_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = several(
        put(
            "provenance.command", "python -m bench.train tasks=regbench seed=1 store=/home/me/runs"
        ),
        put("provenance.platform", "Linux-6.1-me-x86_64"),
    )
    public = several(
        put("provenance.command", "python -m bench.train tasks=regbench seed=1 store=PATH"),
        put("provenance.platform", "Linux x86_64"),
    )
    for change, told in ((private, "store=/home/me/runs; Linux-6.1-me-x86_64"), (public, None)):
        path = forged(Forgery(TRAINED, change, ""), tmp_path)
        assert add.main([str(path), f"to={tmp_path / str(told is None)}"]) == 0
        said = capsys.readouterr().out
        assert (f"tells of the machine that made it, to whoever reads it: {told}" in said) == bool(
            told
        )
        assert ("tells of the machine" in said) == bool(told)


def test_where_a_traceback_lies_in_a_store_tells_of_no_machine() -> None:
    record = read_record(first(TRAINED))
    told_system = record.provenance.model_copy(update={"platform": "Linux x86_64"})
    record = record.model_copy(update={"provenance": told_system})
    details = f"(details in work/{record.run_id}/traceback.txt of the store)"
    for cause, is_private in ((f"RuntimeError: … {details}", False), ("no file /home/me/x", True)):
        failed = record.model_copy(update={"outcome": "failed", "cause": cause})
        assert admission.tells(failed) == [cause] * is_private


@pytest.mark.usefixtures("few")
def test_code_that_is_not_here_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = Forgery(TRAINED, put("provenance.model_code", A), "", True)
    assert add.main([str(forged(earlier, tmp_path)), f"to={tmp_path / 'to'}"]) == 0
    assert "stale" in capsys.readouterr().out
