"""The name that ``python -m reproduce evidence`` had until release 0.2; it goes with release 0.4."""

import sys
from pathlib import Path

if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", False):
    # As in the packages: a folder models/ where the command is given must not stand in for ours.
    sys.path[0] = str(Path(__file__).resolve().parent)

if __name__ == "__main__":
    from core.errors import command
    from reproduce.__main__ import main

    print("note: this command is called python -m reproduce evidence now", file=sys.stderr)
    command(lambda words: main(["evidence", *words]))
