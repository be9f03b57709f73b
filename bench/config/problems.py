"""What pydantic refuses, in words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from core.errors import UserError

TRUTH_VALUE = "truth_value"  # an error of a whole section, which names its field


@contextmanager
def first_problem_in_a_sentence(beginning: str = "") -> Iterator[None]:
    """Turn what pydantic refuses in the block into a user's mistake, after some words."""
    try:
        yield
    except ValidationError as error:
        raise UserError(beginning + first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """What pydantic refused first, in words of the command line."""
    first = error.errors()[0]
    if first["type"] == TRUTH_VALUE:
        field = first["ctx"]["field"]
        first |= {"loc": (*first["loc"], field), "input": first["input"][field]}
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    place = "".join(parts).removeprefix(".")
    message = first["msg"].removeprefix("Value error, ")
    if place in ("", "training", "sweep"):
        return message
    if first["type"] == "missing":
        return f"{place} is missing"
    return f"{place}={first['input']!r} cannot be used: {message[0].lower()}{message[1:]}"
