"""A run is made and submitted in one clone and verified in another, with no file of the first.

``nox -s second_clone``. Clones hold what is committed: changes that are not are named.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from core.files import ROOT

RUN = ["tasks=state_tracking", "models=lstm", "preset=smoke", "seed=11", "device=cpu"]
SAID = ["who=Ada", "contact=ada@example.org", "licence=CC-BY-4.0"]
SAID += ["training_data=words drawn anew in every run", "contamination=none: tests are drawn anew"]


def clone(folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def python(where: Path, module: str, *words: str) -> str:
    """A command of one clone, and what it printed.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(where), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout)
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def main() -> None:
    """Fail unless the submission reaches the level re-run in one command."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True
    )
    if changed.stdout:
        print(f"not in the clones:\n{changed.stdout}")
    with tempfile.TemporaryDirectory(prefix="clones-") as name:
        folder, sent = Path(name), Path(name) / "sent"
        first = clone(folder / "first")
        python(first, "bench.train", *RUN)
        (record,) = (first / "runs" / "records").glob("*.json")
        python(first, "leaderboards.submit", record.stem, f"to={sent}", *SAID)
        shutil.rmtree(first)
        second = clone(folder / "second")
        said = python(second, "leaderboards.verify", str(sent))
        for wanted in (f"{record.stem}: re-run", "re-scored: within", "re-run: within"):
            if wanted not in said:
                raise SystemExit(f"'{wanted}' is not what the second clone found")
    print("a submission of one clone is run again by another")


if __name__ == "__main__":
    main()
