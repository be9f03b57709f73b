"""Honest records of other searches and machines, which no check may refuse."""

import hashlib
import json
from typing import Any

import pytest

from bench.config.samplers import describe_sampler, tried
from bench.records.schema import RunRecord, Study, Trial, read_record
from leaderboards.checks.agreement import SharedStatements
from leaderboards.checks.studies import _search, _study
from tests.committed import committed_paths, committed_records

SPACE = {"training.lr": [1e-3, 3e-4, 1e-4], "models.layers": [2, 4], "models.heads": [1, 2]}


def kept(record: RunRecord, sampler: str, budget: int, space: dict[str, list[Any]]) -> Study:
    """The study of such a search as a record keeps it: with its keys sorted."""
    assert record.study is not None
    name = record.study.name
    trials = [
        Trial(number=n, parameters=setting, value=0.5, outcome="ok", run_id=f"{name}-s0")
        for n, setting in enumerate(tried(space, sampler, budget, 5))
    ]
    study = record.study.model_copy(
        update={"search_space": space, "sampler": describe_sampler(sampler, 5), "trials": trials}
    )
    return Study.model_validate(
        json.loads(json.dumps(study.model_dump(mode="json"), sort_keys=True))
    )


@pytest.mark.parametrize("sampler", ["grid", "random", "qmc"])
@pytest.mark.parametrize("budget", [1, 2, 5, 11, 12])
def test_a_search_that_ended_early_is_one_in_whatever_order_its_keys_stood(
    honest: list[RunRecord], sampler: str, budget: int
) -> None:
    study = kept(honest[0], sampler, budget, SPACE)
    assert _search(honest[0], study) is None
    other = study.trials[0].parameters | {"training.lr": 1e-3, "models.layers": 4}
    if budget == 2 and sampler == "grid":  # no order begins with both
        wrong = [study.trials[0], study.trials[1].model_copy(update={"parameters": other})]
        wrong[0] = wrong[0].model_copy(update={"parameters": {**other, "training.lr": 1e-4}})
        forged = study.model_copy(update={"trials": wrong})
        assert "other settings than the first 2" in str(_search(honest[0], forged))


def test_a_space_with_one_value_twice_is_refused_at_once(honest: list[RunRecord]) -> None:
    """Its Halton sequence would never have entered as many cells as it seems to have."""
    study = kept(honest[0], "qmc", 1, {"models.layers": [2]})
    twice = [study.trials[0], study.trials[0].model_copy(update={"number": 1})]
    twice[1] = twice[1].model_copy(update={"parameters": {"models.layers": 2.0}})
    forged = study.model_copy(update={"search_space": {"models.layers": [2, 2]}, "trials": twice})
    assert "a value twice" in str(_search(honest[0], forged))
    forged = forged.model_copy(update={"search_space": {"models.layers": [2, 4]}})
    assert "outside its search_space" in str(_search(honest[0], forged))


def test_data_that_another_processor_rounds_contradict_nothing() -> None:
    pattern = "test_time_memory/laptop/test_time_memory-kernel-laptop-*-s1.json"
    record = read_record(committed_paths(pattern.removesuffix(".json"))[0])
    made_by = record.provenance
    elsewhere = made_by.model_copy(
        update={"device": "Another CPU", "data": dict.fromkeys(made_by.data, "c" * 64)}
    )
    together = SharedStatements()
    together.take(record)
    together.take(record.model_copy(update={"provenance": elsewhere}))


def _of_a_guest(record: RunRecord, target: str, lr: float | None = None) -> RunRecord:
    """The same run as one of a class of somebody's package, trained with another rate if told."""
    models = {**record.config["models"], "_target_": target}
    training = {**record.config["training"], **({"lr": lr} if lr else {})}
    config = {**record.config, "models": models, "training": training}
    name = target.rpartition(".")[2]
    other = {"identity": hashlib.sha256(target.encode()).hexdigest(), "run_id": f"{name}-{lr}"}
    code = record.provenance.model_copy(update={"model_code": other["identity"]})
    changed = {"config": config, "model": name, "provenance": code, "study": None}
    return record.model_copy(update={**changed, **other})


def test_a_budget_of_parameters_is_kept_by_the_run_that_was_chosen(honest: list[RunRecord]) -> None:
    record = honest[0]
    assert record.study is not None
    size = record.cost.parameters
    assert size is not None

    def searched(budgets: list[int]) -> RunRecord:
        """The same search with the number of parameters as one more key, in place of the width."""
        trials = [
            trial.model_copy(
                update={"parameters": {**trial.parameters, "models.parameters": budgets[0]}}
            )
            for trial in record.study.trials
        ]
        space = {**record.study.search_space, "models.parameters": budgets}
        study = record.study.model_copy(update={"trials": trials, "search_space": space})
        return record.model_copy(update={"study": study})

    assert _study(searched([round(1.04 * size)])) is None
    assert "its config is not the best one" in str(_study(searched([round(1.2 * size)])))


def test_a_class_that_its_package_has_renamed_contradicts_nothing(honest: list[RunRecord]) -> None:
    record = honest[0]
    together = SharedStatements()
    together.take(_of_a_guest(record, "a_package.first.First"))
    together.take(_of_a_guest(record, "a_package.second.Second"))
    with pytest.raises(ValueError, match="training settings with its weights_sha256"):
        together.take(_of_a_guest(record, "a_package.Third", lr=0.5))
    # A class that changes nothing of one of ours has its weights, and its row says so.
    together.take(record)


def test_a_control_of_one_batch_agrees_with_those_of_the_same_batch() -> None:
    """Batches of other seeds are as long as these have them: attention's FLOPs for each token of
    three honest controls differ by more than what trainings may differ by."""
    settings = {"training_automata": 500, "variant": "held_out"}
    found = [
        record
        for record in committed_records()
        if (record.task, record.model, record.role) == ("regbench", "gpt2", "control")
        and settings.items() <= record.config["tasks"].items()
        and record.preset == "laptop"
    ]
    assert len({record.seed for record in found}) == 3
    together = SharedStatements()
    for record in found:
        together.take(record)
    more = {"training_flops": 5 * (found[0].cost.training_flops or 0)}
    cost = found[0].cost.model_copy(update=more)
    other = found[0].model_copy(update={"cost": cost})
    with pytest.raises(ValueError, match="training_flops for each token is not as in"):
        together.take(other)
