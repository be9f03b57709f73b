"""What a metric follows from, as cards say it: each entry is read, or refused in a sentence."""

from typing import Any

import numpy as np
import pytest

from bench.config.groups import choices
from bench.records.schema import Curve, read_record
from core.errors import UserError
from leaderboards.checks import derived_metrics, points
from tests.leaderboards.sending import current


@pytest.fixture(autouse=True)
def forget() -> Any:
    derived_metrics.entries_of_card.cache_clear()
    yield
    derived_metrics.entries_of_card.cache_clear()


def test_every_card_of_the_tree_is_read() -> None:
    assert sum(len(derived_metrics.entries_of_card(task)) for task in choices("tasks")) > 15


@pytest.mark.parametrize(
    "entry",
    [
        "per_sequence.accuracy",
        {},
        {"within": 0.1},
        {"mean": "per_sequence.accuracy"},
        {"median": "per_sequence.accuracy", "within": 0.1},
        {"mean": "items.accuracy", "within": 0.1},
        {"mean": "per_sequence", "within": 0.1},
        {"mean": "per_sequence.accuracy", "within": "little"},
        {"mean": "per_sequence.accuracy", "last": "curves.loss", "within": 0.1},
        {"mean": "per_sequence.accuracy", "within": 0.1, "only_with": {"variant": "iid"}},
        {"last": "curves.accuracy", "within": 0.1, "at": "*"},
        {"last": "curves.accuracy", "within": 0.1, "at": [4]},
        {"mean": "curves.accuracy", "within": 0.1, "over": [4]},
        {"mean": "curves.accuracy", "within": 0.1, "over": [4, "many"]},
        {"mean": "per_sequence.accuracy", "within": 0.1, "weights": "lengths"},
        {"last": "per_sequence.accuracy", "within": 0.1, "weights": 0.25},
    ],
    ids=str,
)
def test_a_damaged_entry_is_one_sentence(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {"follows": {"accuracy": entry}})
    with pytest.raises(UserError, match=r"tasks/regbench.yaml: card.follows.accuracy is not like"):
        derived_metrics.entries_of_card("regbench")


def test_the_order_of_keys_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"within": 0.1, "mean": "per_sequence.accuracy"}
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {"follows": {"accuracy": entry}})
    (read,) = derived_metrics.entries_of_card("regbench")
    assert (read.take, read.within) == ("mean", 0.1)


def test_a_metric_that_no_card_derives_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items are looked at all the same; but nothing says that it is their mean."""
    record = read_record(current("state_tracking/smoke/*", "final"))
    assert derived_metrics.derives(record, "accuracy")
    derived_metrics.entries_of_card.cache_clear()
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {})
    assert not derived_metrics.derives(record, "accuracy")
    assert derived_metrics.agrees(record) is None
    metrics = {**record.metrics, "test": {**record.metrics["test"], "accuracy": 0.1}}
    assert "the mean of per_sequence" in str(
        derived_metrics.agrees(record.model_copy(update={"metrics": metrics}))
    )


def test_an_entry_of_several_holds_for_a_predictor_where_it_has_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a model each is asked for; a predictor has one of them, or is none of those named."""
    record = read_record(current("state_tracking/smoke/*product*", "baseline"))
    both = [
        {"mean": "per_sequence.accuracy", "within": 0.05},
        {"mean": "curves.nothing", "within": 0.05},
    ]

    def said(entries: list[dict[str, Any]], **changes: Any) -> str | None:
        derived_metrics.entries_of_card.cache_clear()
        monkeypatch.setattr(
            derived_metrics, "card_of", lambda task: {"follows": {"accuracy": entries}}
        )
        return derived_metrics.agrees(record.model_copy(update={"curves": {}, **changes}))

    assert said(both) is None
    assert "no curves.nothing" in str(said(both, role="final"))
    assert "no curves.nothing" in str(said(both[1:]))
    assert "no per_sequence.accuracy" in str(said(both, per_sequence={}))
    others = [{**both[1], "only_of": ["somebody else"]}]
    assert said(others) is None
    assert "no curves.nothing" in str(said([{**both[1], "only_of": [record.label]}]))


@pytest.mark.parametrize(("y", "agrees"), [([9.0, 0.5], True), ([0.4, 0.6], True), ([0.4], False)])
def test_a_curve_of_a_metric_ends_in_it_or_has_its_mean(
    y: list[float], agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {})
    record = read_record(current("regbench/smoke/*", "final"))
    changes = {"metrics": {"test": {"accuracy": 0.5}}, "per_sequence": {}}
    curve = Curve(x=[*map(float, range(len(y)))], y=y)
    found = derived_metrics.agrees(
        record.model_copy(update={**changes, "curves": {"accuracy": curve}})
    )
    assert (found is None) == agrees


@pytest.mark.parametrize(
    ("metric", "entry", "value", "by"),
    [
        (
            "part/4",
            ("part/*", {"last": "curves.whole", "at": "*"}),
            0.4,
            "last of curves.whole at 4",
        ),
        ("part/4", ("part/4", {"last": "curves.whole", "at": 4}), 0.4, "last of curves.whole at 4"),
        ("part/4", ("part/4", {"last": "curves.whole", "at": "four"}), 0.4, "curves.whole at 4"),
        ("a,b=4", ("*,b=*", {"last": "curves.*", "at": "*"}), 0.7, "the last of curves.a at 4"),
        ("early", ("early", {"mean": "curves.whole", "over": [1, 2]}), 0.15, "whole from 1 to 2"),
        ("early", ("early", {"mean": "curves.whole", "over": "first"}), 0.15, "whole from 1 to 2"),
        ("end", ("end", {"last": "curves.of/{sizes[-1]}"}), 0.9, "the last of curves.of/30"),
        ("whole", ("whole*", {"last": "curves.whole*"}), 0.4, "the last of curves.whole"),
        (
            "most",
            ("most", {"range": "curves.whole"}),
            0.25,
            "the range of curves.whole is 0.1 to 0",
        ),
        ("ups", ("ups", {"number of rises": "curves.whole"}), 3.0, "rises of curves.whole is 3"),
        ("half", ("half", {"crossing of 0.5": "curves.of/30"}), 4.25, "of/30 is 4.25"),
        ("fit", ("fit", {"log-log slope": "curves.square"}), 2.0, "slope of curves.square is 2"),
    ],
)
def test_an_entry_takes_of_a_curve_what_it_says(
    metric: str,
    entry: tuple[str, dict[str, Any]],
    value: float,
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follows = {entry[0]: {**entry[1], "within": 1e-6}}
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {"follows": follows})
    record = read_record(current("regbench/smoke/*", "final"))
    x = [1.0, 2.0, 3.0, 4.0]
    curves = {
        "whole": Curve(x=x, y=[0.1, 0.2, 0.3, 0.4]),
        "a": Curve(x=x, y=[0.7] * 4),
        "of/20": Curve(x=x, y=[0.8] * 4),
        "of/30": Curve(x=[4.0, 5.0], y=[0.4, 0.8]) if metric == "half" else Curve(x=x, y=[0.9] * 4),
        "square": Curve(x=x, y=[1.0, 4.0, 9.0, 16.0]),
    }
    tasks = {"four": 4, "first": [1, 2], "sizes": [20, 30]}

    def said(**test: float) -> str | None:
        changes = {"metrics": {"test": test}, "config": {**record.config, "tasks": tasks}}
        fields = {"per_sequence": {}, "arrays": {}, "curves": curves}
        return derived_metrics.agrees(record.model_copy(update={**changes, **fields}))

    assert said(**{metric: value}) is None
    assert f"metrics.test.{metric} is {value + 0.6}, and the" in str(said(**{metric: value + 0.6}))
    assert by in str(said(**{metric: value + 0.6}))
    optional = "*" in entry[0]
    assert ("it has no metrics.test." in str(said())) is not optional


def test_what_a_star_or_an_item_does_not_fit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word is no place on a curve, and a list without items names none; a curve that is not there
    is asked for by every metric that a star fits."""
    follows = {
        "part/*": {"last": "curves.whole", "at": "*", "within": 0},
        "end": {"last": "curves.of/{sizes[-1]}", "within": 0},
    }
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {"follows": follows})
    record = read_record(current("regbench/smoke/*", "final"))
    config = {**record.config, "tasks": {"sizes": []}}
    bare = {"per_sequence": {}, "curves": {}, "config": config}
    words = {**bare, "metrics": {"test": {"part/all": 1.0, "end": 1.0}}}
    assert derived_metrics.agrees(record.model_copy(update=words)) is None
    number = {**bare, "metrics": {"test": {"part/4": 1.0}}}
    why = derived_metrics.agrees(record.model_copy(update=number))
    assert why == "it has no curves.whole, by which its part/4 is checked"


def test_a_metric_is_the_mean_of_its_list_in_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of rows is none."""
    monkeypatch.setattr(derived_metrics, "card_of", lambda task: {})
    record = read_record(current("gradient_memory/laptop/*"))
    metric = "accuracy/N=32,d=16"
    assert derived_metrics.agrees(record) is None
    test = {**record.metrics["test"], metric: 1.5}
    changed = record.model_copy(update={"metrics": {**record.metrics, "test": test}})
    assert f"the mean of arrays.{metric} is" in str(derived_metrics.agrees(changed))
    arrays = {**record.arrays, metric: [record.arrays[metric]]}
    assert derived_metrics.agrees(changed.model_copy(update={"arrays": arrays})) is None


def lengths_and_items(seed: int, slope: float) -> tuple[np.ndarray, np.ndarray]:
    """Lengths as RegBench draws them, and a share of each sequence that goes with its length."""
    generator = np.random.default_rng(seed)
    strings = generator.integers(10, 19, size=500, endpoint=True)
    lengths = np.array([generator.integers(1, 49, size=n, endpoint=True).sum() for n in strings])
    noise = generator.normal(scale=0.02, size=500)
    return lengths, 0.5 + slope * (lengths / lengths.mean() - 1) + noise


@pytest.mark.parametrize("slope", [-0.8, 0.0, 0.8])
def test_items_that_go_with_their_length_are_no_contradiction(slope: float) -> None:
    for seed in range(20):
        lengths, items = lengths_and_items(seed, slope)
        metric = float((lengths * items).sum() / lengths.sum())
        expected = points.weighted_unequally(list(enumerate(items.tolist())), 0.25)
        assert points.distance(metric, expected) == 0.0
        # More than unequal lengths can give: forged.
        assert points.distance(float(items.mean()) + 0.5 * float(items.std()), expected) > 0.0


def test_a_metric_that_fewer_reach_the_later_it_gets_is_a_mean_of_a_beginning() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        lengths = generator.integers(30, 120, size=40)
        values = generator.random((40, 120))
        reached = np.arange(120) < lengths[:, None]
        last = lengths.max()
        curve = (values * reached).sum(0)[:last] / reached.sum(0)[:last]
        metric = float(values[reached].mean())
        assert points.distance(metric, points.beginnings(list(enumerate(curve.tolist())))) < 1e-12
