"""Changes of the content of a record, of which forgeries are made."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bench.records.equivalence import Code, Name
from bench.records.identity import identity_of
from bench.records.provenance import sha256_of
from bench.records.schema import Provenance

Content = dict[str, Any]
Change = Callable[[Content], None]

TRAINED = "regbench/smoke/regbench-gpt2-*-s1"  # final, of three seeds


class Forgery(NamedTuple):
    """A change of a committed record, and what the refusal names."""

    of: str
    change: Change
    named: str
    identified: bool = False  # the forger works out identity and run id again


def put(place: str, value: Any) -> Change:
    """Set what a dotted place names; in a list, all of it."""

    def change(content: Content) -> None:
        *path, last = place.split(".")
        node = content
        for key in path:
            node = node[key]
        node[last] = value(node[last]) if callable(value) else value

    return change


def several(*changes: Change) -> Change:
    def change(content: Content) -> None:
        for one in changes:
            one(content)

    return change


def headline(value: Any, items: bool = False) -> Change:
    """Another accuracy, in the table and among the metrics, and in every item if asked."""
    changes = [put("headline.value", value), put("metrics.test.accuracy", value)]
    if items:
        changes.append(put("per_sequence.accuracy", lambda old: [value] * len(old)))
    return several(*changes)


def better(metric: str, value: float) -> Change:
    """Another headline, in the table and among the metrics."""
    return several(put("headline.value", value), put(f"metrics.test.{metric}", value))


def trials(**changes: Any) -> Change:
    """The same in every trial of the study."""
    return put("study.trials", lambda old: [{**trial, **changes} for trial in old])


def unstudied(change: Change) -> Change:
    """A change of a run that no study chose."""
    return several(put("role", "single"), put("study", None), put("cost.tuning_trials", 0), change)


def drop(place: str) -> Change:
    def change(content: Content) -> None:
        *path, last = place.split(".")
        node = content
        for key in path:
            node = node[key]
        del node[last]

    return change


def identify(content: Content) -> None:
    """Work the identity out again, as a careful forger would."""
    content["provenance"]["library_lock"] = sha256_of(content["provenance"]["libraries"])
    provenance = Provenance.model_validate(content["provenance"])
    baseline = content["label"] if content["role"] == "baseline" else None
    name = Name(Code.of(content["config"], provenance), content["config"])
    content["identity"] = identity_of(name, content["preset"], provenance, baseline)


def libraries(content: Content) -> None:
    content["provenance"]["libraries"]["torch"] = "99.0"


def best_trial(content: Content) -> None:
    """A study in which another setting was best."""
    trials = content["study"]["trials"]
    other = next(t for t in trials if t["parameters"] != _chosen(content))
    other["value"] = 0.9999


def chosen_over(change: Callable[[list[float]], list[float]]) -> Change:
    """Other values over seeds of the setting that the study chose."""

    def changed(content: Content) -> None:
        trials = content["study"]["trials"]
        own = next(t for t in trials if t["parameters"] == _chosen(content))
        own["over_seeds"] = change(own["over_seeds"])

    return changed


def _chosen(content: Content) -> Content:
    space = content["study"]["search_space"]
    split = {key: key.split(".") for key in space}
    return {key: content["config"][a][b] for key, (a, b) in split.items()}


def invented_trials(content: Content) -> None:
    """More trials than the space of the search has settings."""
    study = content["study"]
    study["trials"] += [
        {**study["trials"][0], "number": 1000 + extra, "run_id": None} for extra in range(500)
    ]
    content["cost"]["tuning_trials"] = len(study["trials"])


def only_the_chosen(content: Content) -> None:
    """A search that tells of no setting but the one that it chose."""
    chosen = [t for t in content["study"]["trials"] if t["parameters"] == _chosen(content)]
    content["study"]["trials"] = chosen
    content["cost"]["tuning_trials"] = len(chosen)


def without_items(metric: str, value: float) -> Change:
    """Another headline, and nothing in the record that it could be worked out from."""
    gone = [put(section, {}) for section in ("per_sequence", "curves", "arrays")]
    return several(better(metric, value), *gone)
