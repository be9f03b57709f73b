"""The orders in which a search tries the settings of a finite space, and how records call them.

Settings are drawn without repetition: trial i of every sampler but TPE is the i-th setting of a
sequence that depends on nothing but the space, with the order of its keys and values, and a seed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.config.search_space import Space

Setting = dict[str, Any]  # key of the search space -> value

SAMPLERS = ("random", "grid", "qmc", "tpe")
TPE_STARTUP_TRIALS = 10
MOST_WORKED_OUT = 100_000  # settings that are put in order to check what was tried
MOST_KEYS = 4  # of which every order is looked at


def grid(space: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """Every setting of a search space, the last key changing fastest."""
    return list(_in_order(space))


def _in_order(space: Space) -> Iterator[Setting]:
    return (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))


def random_order(space: Mapping[str, Sequence[Any]], seed: int) -> list[Setting]:
    """The grid in an order that depends on the seed and on nothing else: sorted by a hash."""
    return sorted(
        grid(space), key=lambda s: hashlib.sha256(f"{seed}/{key_of(s)}".encode()).digest()
    )


def quasi_random_order(space: Mapping[str, Sequence[Any]]) -> Iterator[Setting]:
    """The cells of the grid in the order in which the Halton sequence first enters them.

    Source: Halton 1960; the sequence starts at index 1, and is not scrambled.
    """
    seen: set[str] = set()
    size = math.prod(len(values) for values in space.values())
    bases = list(itertools.islice(_primes(), len(space)))
    for index in itertools.count(1):
        if len(seen) == size:
            return
        setting = {}
        for (key, values), base in zip(space.items(), bases, strict=True):
            setting[key] = values[int(radical_inverse(index, base) * len(values))]
        if key_of(setting) not in seen:
            seen.add(key_of(setting))
            yield setting


def tried(space: Space, sampler: str, budget: int, seed: int) -> list[Setting]:
    """What a search tries, in order; TPE learns on its way, so that only how many is known."""
    if sampler == "grid":
        order: Iterator[Setting] = _in_order(space)
    elif sampler == "qmc":
        order = quasi_random_order(space)
    else:
        order = iter(random_order(space, seed))
    return list(itertools.islice(order, budget))


def tried_by(described: str, space: Space, budget: int) -> list[list[Setting]] | None:
    """What a search tries whose sampler is called so in a record: one list for each order in which
    its keys may have stood, since a record has them sorted. None of TPE, and where working it out
    takes too long.

    Raises:
        ValueError: there is no such sampler.
    """
    seed = int(next(iter(re.findall(r"seed(?:=| from )(\d{1,19})", described)), 0))
    sampler = next((name for name in SAMPLERS if describe_sampler(name, seed) == described), None)
    if sampler is None:
        raise ValueError(f"there is no sampler {described!a:.80}")
    ordered = sampler in ("grid", "qmc")
    if sampler == "tpe" or (ordered and len(space) > MOST_KEYS):
        return None
    orders = list(itertools.permutations(space)) if ordered else [tuple(space)]
    size = budget if sampler == "grid" else math.prod(map(len, space.values()))
    if size * len(orders) > MOST_WORKED_OUT:
        return None
    settings_by_order = []
    for order in orders:
        in_order = {key: space[key] for key in order}
        settings_by_order.append(tried(in_order, sampler, budget, seed))
    return settings_by_order


def radical_inverse(index: int, base: int) -> float:
    """The digits of ``index`` mirrored at the point, in [0, 1): van der Corput's sequence."""
    value, scale = 0, 1
    while index:
        index, digit = divmod(index, base)
        value, scale = value * base + digit, scale * base
    return value / scale


def describe_sampler(sampler: str, seed: int) -> str:
    """A sampler with its arguments."""
    return {
        "grid": "grid, in order",
        "random": f"random without repetition, seed={seed}",
        "qmc": "Halton sequence from index 1, not scrambled, without repetition",
        "tpe": f"TPESampler(n_startup_trials={TPE_STARTUP_TRIALS}, seed from {seed}), "
        "without repetition",
    }[sampler]


def choice_of(metric: str, direction: str, over_seeds: bool = False) -> str:
    """How one setting is chosen, in words.

    Args:
        direction: "maximise" or "minimise".
        over_seeds: whether the best one was trained with all seeds before it was chosen.
    """
    mean = "mean over seeds of " if over_seeds else ""
    return f"{mean}{metric} on validation, {direction}d; then lower loss"


def key_of(setting: Mapping[str, Any]) -> str:
    """A setting as one word, whatever the order of its keys."""
    return json.dumps(setting, sort_keys=True)


def _primes() -> Iterator[int]:
    primes: list[int] = []
    for number in itertools.count(2):
        if all(number % prime for prime in primes):
            primes.append(number)
            yield number
