"""The command that proves code equal up to rounding, in a repository of its own."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.records.record_files import records_in
from bench.records.schema import Curve, read_record, read_records, write_record
from tests import commands
from tests.bench.test_equivalence_command import ONE_AFTER_ANOTHER
from tests.conftest import ROOT

TINY = [
    *("tasks=regbench", "models=gpt2", "preset=smoke", "device=cpu", "tracking=none"),
    *("tasks.training_automata=20", "tasks.validation_size=5", "tasks.test_size=5"),
    *("tasks.strings=[4,6]", "tasks.string_length=[1,6]", "training.batch_size=8"),
    *("models.width=16", "models.layers=1", "training.steps=30", "training.validate_every=30"),
]
FASTER = """\
class Norm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
        variance = centred.square().sum(-1, keepdim=True) / x.shape[-1]
        return centred * (variance + self.eps).rsqrt() * self.weight


class Block(nn.Module):"""


def run(root: Path, *lines: list[str]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of commands, one after another in one process."""
    words = ("-c", ONE_AFTER_ANOTHER, json.dumps(lines))
    done = commands.run(*words, cwd=root, env={"PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    return [tuple(ended) for ended in json.loads(done.stdout)]


@pytest.mark.processes
@pytest.mark.long
def test_a_faster_form_keeps_its_records_and_a_changed_constant_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "scratch"
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("core", "bench", "models", "tasks"):
        shutil.copytree(ROOT / name, root / name, ignore=skipped)
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "as it was"]):
        subprocess.run([*git, *words], check=True)
    train = ["bench.train", *TINY, "committed=true"]
    made = run(root, *([*train, f"seed={seed}", "store=made"] for seed in range(3)))
    assert [code for code, _, _ in made] == [0, 0, 0], made
    committed = root / "leaderboards" / "records" / "regbench" / "smoke"
    jump = Curve(x=[float(n) for n in range(40)], y=[3.0] * 20 + [1.0] * 20)
    for path in records_in(root / "made" / "records"):
        record = read_record(path)
        # So short a training has no jump: a curve with one has its run made again in full.
        curves = {**record.curves, "training_loss": jump}
        write_record(record.model_copy(update={"curves": curves}), committed)
    recorded = list(read_records([committed]))

    source = root / "models" / "gpt2.py"
    code = source.read_text()
    faster = code.replace("class Block(nn.Module):", FASTER).replace("= nn.LayerNorm(", "= Norm(")
    source.write_text(faster)
    prove = ["bench.equivalence", "rounding=true", "tasks=regbench", "models=gpt2"]
    proven, served, again, listed = run(
        root, prove, [*train, "seed=1", "store=mine"], prove, [*prove, "records=true"]
    )
    assert proven[0] == 0, proven[2]
    assert "proven up to rounding: regbench, gpt2, HEAD and this checkout (1 run of" in proven[1]
    assert "  across its jump: regbench-gpt2-smoke-" in proven[1]
    table = json.loads((root / "leaderboards/equivalences/regbench.json").read_bytes())
    (entry,) = table["entries"]
    assert entry["by"] == "rounding"
    assert 0 < entry["rounded"][0]["float64"]["weights"] < 1
    assert entry["whole"][0]["record"] in {record.run_id for record in recorded}
    assert "nothing to do" in served[1]
    assert "its code is equal up to rounding" in served[1]
    assert not (root / "mine" / "records").exists()
    assert again[0] == 0  # what was compared is kept
    assert listed[0] == 2
    assert "leave records= out" in listed[2]

    source.write_text(faster.replace("rsqrt() *", "rsqrt() * 1.001 *"))
    refused, gone = run(root, prove, ["bench.equivalence", "rounding=true", "tasks=capacity"])
    assert refused[0] == 4
    assert "refused: regbench, gpt2, HEAD and this checkout: in float64 outputs" in refused[2]
    assert gone[0] == 2
    assert "capacity is a measurement" in gone[2]
    assert "Traceback" not in refused[2] + gone[2] + proven[2]
