"""Of an earlier interface: configurations from words, for who has no values yet."""

from __future__ import annotations

from bench.config.config import compose as compose_seeded

__all__ = ["compose_seeded"]
