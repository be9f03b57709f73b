"""Forgeries drawn at random: what can be worked out again from a record, or counted again from its
configuration, is another number, hash or name there."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from bench.records.provenance import sha256_of
from tests.leaderboards.forging.changes import Content, Forgery, put

Rule = Callable[[float], float]

COSTS = ("parameters", "state_bytes", "training_steps", "training_tokens", "training_flops")
RULES: tuple[Rule, ...] = (
    lambda v: 2 * v + 1,
    lambda v: 10 * v + 3,
    lambda v: v / 3,
    lambda v: -v - 1,
    lambda v: 0.9999,
    lambda v: 1.0,
)
FAR = 0.25  # from the number in its place, so that no rounding and no weights explain it


def generated(content: Content, count: int, seed: int) -> Iterator[Forgery]:
    """Forgeries of one record; ``named`` is the place of what was changed."""
    draw = random.Random(seed)
    places = [*_places(content)]
    for _ in range(count):
        place, identified = draw.choice(places)
        yield Forgery("", put(place, _wrong(draw)), place, identified)


def _places(content: Content) -> Iterator[tuple[str, bool]]:
    """Places of what can be worked out again, and whether the forger works out the identity too."""
    measured = content["metrics"]["test"].keys() & content["per_sequence"].keys()
    for metric in sorted(measured):
        yield f"metrics.test.{metric}", False
        yield f"per_sequence.{metric}", False
    for place in ("headline.value", "identity", "provenance.libraries.torch"):
        yield place, False
    if content["cost"]["training_steps"]:  # what keeps no weights has to be run again for its seed
        yield "seed", False
    for name in COSTS:
        if content["cost"][name]:
            yield f"cost.{name}", False
    for name in ("model_code", "task_code", "library_lock"):
        yield f"provenance.{name}", False
    for split in content["provenance"]["data"]:
        yield f"provenance.data.{split}", False
        yield f"provenance.data.{split}", True
    for section, values in content["config"].items():
        for key, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield f"config.{section}.{key}", False
    if "width" in content["config"].get("models", {}):
        yield "config.models.width", True


def _wrong(draw: random.Random) -> Callable[[Any], Any]:
    """Something else of the same kind; all items of a list by the same rule."""
    rules, share = draw.sample(RULES, len(RULES)), draw.random()

    def change(value: Any) -> Any:
        if isinstance(value, str):
            return sha256_of(share) if len(value) == 64 else f"{value}.{share:.3f}"
        if isinstance(value, list):
            rule = next(r for r in rules if abs(sum(map(r, value)) - sum(value)) > FAR * len(value))
            return [rule(item) for item in value]
        found = next(r(value) for r in rules if abs(r(value) - value) > FAR * max(1, abs(value)))
        return max(round(found), 0 if value else 1) if isinstance(value, int) else found

    return change
