"""``python -m bench.measure``: another name of ``python -m bench.train``, for measurements."""

from __future__ import annotations

from bench.train import main
from core.errors import command

if __name__ == "__main__":
    command(main)
