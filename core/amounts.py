"""Numbers of things in sentences."""

from __future__ import annotations


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """How many of something there are, in words.

    Args:
        plural: of a noun that does not end in "s" then, or where it is not the last word.

    Example: "1 record", "0 records", "3 new segments".
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
