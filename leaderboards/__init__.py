import sys
from pathlib import Path

if sys.argv[:1] == ["-m"]:  # `python -m` is looking for a command of this package
    # It has put the working directory first on the path: a settings.py or a folder models/ that
    # lies there must not stand in for the project's own packages.
    sys.path[: 0 if getattr(sys.flags, "safe_path", False) else 1] = [
        str(Path(__file__).resolve().parents[1])
    ]

import core as core  # says which Python is needed
