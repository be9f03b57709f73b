"""The name of ``python -m reproduce evidence`` until release 0.2; it goes with release 0.4."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # A folder models/ where the command is given must not stand in for the project's own.
        sys.path[0] = str(Path(__file__).resolve().parent)
    from core.errors import command
    from reproduce.__main__ import main

    print("note: this command is called python -m reproduce evidence now", file=sys.stderr)
    command(lambda words: main(["evidence", *words]))
