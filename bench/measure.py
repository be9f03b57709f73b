"""``python -m bench.measure``: another name of ``python -m bench.train``, for measurements."""

from __future__ import annotations

from bench.ground.errors import command
from bench.train import main

if __name__ == "__main__":
    command(main)
