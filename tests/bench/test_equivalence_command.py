"""The command that proves equal code, in a repository of its own."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.records.schema import read_records
from tests import commands
from tests.bench.test_equivalence import TINY
from tests.conftest import ROOT

# Commands as `python -m` runs them, in one process: the imports are most of what one costs. It
# prints, for each, its exit code and what it wrote.
ONE_AFTER_ANOTHER = """
import contextlib, io, json, runpy, sys
ended = []
for words in json.loads(sys.argv[1]):
    sys.argv[:] = words
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code
    ended.append([int(code or 0), output.getvalue(), errors.getvalue()])
json.dump(ended, sys.stdout)
"""
NEEDED = {  # of models and tasks, to run the one task
    "models": {"__init__.py", "generation.py", "specification.py", "memories"},
    "tasks": {
        *("__init__.py", "generated.py", "interface.py", "measurement.py", "seeds.py"),
        *("capacity", "capacity.yaml", "text"),
    },
}
Run = Callable[..., list[subprocess.CompletedProcess[str]]]


@pytest.fixture
def scratch(tmp_path: Path) -> tuple[Path, Run]:
    """A repository of its own with the code of one task and its models as it is now, and a way to
    run commands there: comparing all code takes ten times as long."""
    root = tmp_path / "scratch"
    unneeded = {
        ROOT / house: {path.name for path in (ROOT / house).iterdir()} - needed
        for house, needed in NEEDED.items()
    }

    def skipped(folder: str, names: list[str]) -> set[str]:
        return {"__pycache__"} | unneeded.get(Path(folder), set())

    for name in ("core", "bench", "models", "tasks"):
        shutil.copytree(ROOT / name, root / name, ignore=skipped)
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "as it was"]):
        subprocess.run([*git, *words], check=True)

    def run(*lines: list[str]) -> list[subprocess.CompletedProcess[str]]:
        words = ("-c", ONE_AFTER_ANOTHER, json.dumps(lines))
        done = commands.run(*words, cwd=root, env={"PYTHONPATH": str(root)})
        assert done.returncode == 0, done.stderr
        ended = zip(lines, json.loads(done.stdout), strict=True)
        return [subprocess.CompletedProcess(words, *result) for words, result in ended]

    return root, run


@pytest.mark.processes
@pytest.mark.long
def test_a_renamed_module_keeps_its_runs_and_a_changed_constant_is_refused(
    scratch: tuple[Path, Run],
) -> None:
    root, run = scratch
    words = ["bench.measure", *TINY, "store=runs"]
    assert run(words)[0].returncode == 0
    (before,) = read_records([root / "runs" / "records"])

    committed = root / "leaderboards" / "records" / "capacity" / "smoke"
    committed.mkdir(parents=True)
    shutil.copy(root / "runs" / "records" / f"{before.run_id}.json", committed)
    memories = root / "models" / "memories"
    source = (memories / "delta_rule.py").read_text()
    (memories / "delta_rule.py").rename(memories / "delta.py")
    recipe = memories / "delta_rule.yaml"
    recipe.write_text(recipe.read_text().replace("delta_rule.DeltaRule", "delta.DeltaRule"))
    moved, served = run(["bench.equivalence", "moved=true"], words)
    assert moved.returncode == 0, moved.stderr
    proven = "proven: capacity with delta_rule, HEAD and this checkout\nmoved: models.memories."
    assert proven in moved.stdout
    proof = root / "leaderboards" / "equivalences" / "capacity.json"
    (by_definitions,) = json.loads(proof.read_bytes())["entries"]
    assert by_definitions["moved"]["models.memories.delta_rule.DeltaRule"].endswith(
        "delta.DeltaRule"
    )
    assert "nothing to do" in served.stdout
    proof.unlink()

    prove = ["bench.equivalence", "tasks=capacity", "models=delta_rule", "preset=smoke"]
    evaluate = ["bench.evaluate", f"run={before.run_id}", "store=runs"]
    done, served, again = run(prove, words, evaluate)
    assert done.returncode == 0, done.stderr
    assert "proven: capacity, delta_rule" in done.stdout
    table = proof.read_bytes()
    (written,) = [e for e in json.loads(table)["entries"] if e["model"] == "delta_rule"]
    assert written["old"]["model"].endswith("delta_rule.DeltaRule")
    # Both ways to prove it say the same.
    assert (written["old"], written["new"]) == (by_definitions["old"], by_definitions["new"])
    assert written["new"]["model"].endswith("delta.DeltaRule")
    assert "nothing to do" in served.stdout
    assert list(read_records([root / "runs" / "records"])) == [before]
    assert again.returncode == 0, again.stdout + again.stderr
    assert "equivalent: an earlier one" in again.stdout

    changed = source.replace("keep = 1 - decay", "keep = 0.9 - decay")
    assert changed != source
    (memories / "delta.py").write_text(changed)
    unmoved, refused = run(["bench.equivalence", "moved=true"], prove)
    assert unmoved.returncode == 4
    assert unmoved.stderr.startswith(
        "refused: capacity, delta_rule, HEAD and this checkout: models."
    )
    assert "delta_rule.delta_update of the older code is not here, or differs" in unmoved.stderr
    assert refused.returncode == 4
    assert refused.stderr.splitlines()[-1].startswith("refused: capacity, delta_rule, ")
    assert " differs: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert proof.read_bytes() == table
