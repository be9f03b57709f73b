"""The workflow that verifies pull requests, line for line, on a true submission.

``nox -s workflow``, some minutes. What GitHub gives to a step is stood in for: variables of the
event, a folder for files, and ``gh``, which notes what it was asked for. Clones hold what is
committed.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.files import ROOT
from noxfile import ENVIRONMENT, STAMP, built_from
from tests.second_clone import RUN, SAID, python

PATH = ROOT / ".github" / "workflows" / "verify_submission.yml"
NUMBER = "7"
EVENT = {
    "github.event.pull_request.number": NUMBER,
    "github.repository": "ada/bench",
    "github.token": "no token",
}
TAKE_OUT, VERIFY, COMMENT = (
    "Take out what was submitted",
    "Verify it, first without and then with runs",
    "Comment",
)
GH = '#!/bin/sh\nprintf "%s\\n" "$@" > "$RUNNER_TEMP/asked"\ncat comment.md > "$RUNNER_TEMP/said"\n'


def steps() -> dict[str, dict[str, Any]]:
    """The steps that run something, by name, each with the variables of its job."""
    jobs = yaml.load(PATH.read_text(), yaml.BaseLoader)["jobs"].values()
    return {
        step["name"]: {**step, "env": {**job.get("env", {}), **step.get("env", {})}}
        for job in jobs
        for step in job["steps"]
        if "run" in step
    }


@dataclass(frozen=True)
class Runner:
    """A machine that runs the steps: ``base`` is a checkout of the branch that is asked to merge,
    ``temp`` is its folder for files."""

    base: Path
    temp: Path

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run one step as GitHub does, by bash that ends at the first error."""
        step = steps()[name]
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        tools = self.temp / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "gh").write_text(GH)
        (tools / "gh").chmod(0o755)
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        given = {key: _filled(value) for key, value in step["env"].items()}
        where = self.temp if name == COMMENT else self.base
        return subprocess.run(
            ["bash", "-e", str(script)],
            cwd=where,
            env={**os.environ, **given, "RUNNER_TEMP": str(self.temp), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def read(self, name: str) -> str:
        """A file of the folder for files."""
        return (self.temp / name).read_text()


def _filled(text: str) -> str:
    """A variable's value; an expression of which nothing is known here is a KeyError."""
    return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: EVENT[found[1]], text)


def asked_to_merge(
    folder: Path, change: Callable[[Path], None], *, with_records: bool = True
) -> Runner:
    """A pull request: ``change`` is made in a clone, and waits in the origin as GitHub keeps it.

    Args:
        with_records: whether clones have the thousands of committed records as files.
    """
    origin, theirs, base, temp = (folder / name for name in ("origin", "theirs", "base", "temp"))
    git(folder, "clone", "--bare", "--shared", str(ROOT), str(origin))
    clone(origin, theirs, with_records)
    change(theirs)
    git(theirs, "add", "--all", "--force", "leaderboards", "README.md")
    git(theirs, "-c", "user.name=Ada", "-c", "user.email=a@example.org", "commit", "-m", "A row")
    git(theirs, "push", "origin", f"HEAD:refs/pull/{NUMBER}/head")
    clone(origin, base, with_records)
    temp.mkdir()
    return Runner(base, temp)


def clone(origin: Path, place: Path, with_records: bool) -> None:
    """A working tree of what is committed."""
    git(origin, "clone", "--shared", "--no-checkout", str(origin), str(place))
    if not with_records:
        patterns = ("/*", "!/leaderboards/records/")
        git(place, "sparse-checkout", "set", "--no-cone", *patterns)
    git(place, "checkout")


def git(where: Path, *words: str) -> None:
    """A command of git, which has to succeed."""
    subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)


def main() -> None:
    """Fail unless every step succeeds and the comment tells of a run that was made again."""
    with tempfile.TemporaryDirectory(prefix="workflow-") as name:
        runner = asked_to_merge(Path(name), _submit)
        _environment(runner.base / ENVIRONMENT.name)
        for step in steps():
            done = runner.run(step)
            print(f"{step}: {done.returncode}\n{done.stdout}{done.stderr}")
            if done.returncode:
                raise SystemExit(f"the step '{step}' ended with {done.returncode}")
            if step == VERIFY:
                print(runner.read("comment.md"))
        for wanted in ("re-scored: within", "re-run: within", "New rows:", "| `LSTM` |"):
            if wanted not in runner.read("said"):
                raise SystemExit(f"'{wanted}' is not what the comment says")
        if "comment.md" not in runner.read("asked"):
            raise SystemExit("the comment is not made of the file that was found")
    print("the workflow verifies a submission, line for line")


def _environment(place: Path) -> None:
    """The environment that nox would build in a clone: it has the Python of this process."""
    python = place / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (place / STAMP).write_text(built_from())


def _submit(clone: Path) -> None:
    """Make a run in a clone, and a submission of it."""
    python(clone, "bench.train", *RUN)
    (record,) = (clone / "runs" / "records").glob("*.json")
    python(clone, "leaderboards.submit", record.stem, "to=leaderboards/submissions/ada", *SAID)


if __name__ == "__main__":
    main()
