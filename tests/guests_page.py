"""The recipes of ``docs/guests.md``, taken from the page and trained for a few steps on RegBench.

``nox -s guests`` installs the packages and runs this; each recipe is a process of its own, in an
empty folder that holds nothing but its file, as a reader of the page has it.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from core.errors import OK, RUN_FAILED, UserError, command
from core.files import ROOT

PAGE = ROOT / "docs" / "guests.md"
BLOCK = re.compile(r"^```python\n# (?P<file>\w+\.py)\n(?P<rest>.*?)^```$", re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^class (\w+)\(nn\.Module\)", re.MULTILINE)
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
ON_A_GPU = "# needs: gpu\n"
STEPS = 3
SECONDS = 300


@dataclass(frozen=True)
class Recipe:
    """A file of the page."""

    file: str
    code: str

    @property
    def class_name(self) -> str:
        """Its model."""
        (name,) = CLASS.findall(self.code)
        return str(name)

    @property
    def lines(self) -> int:
        """How many lines of it hold code."""
        lines = (line.strip() for line in self.code.splitlines())
        return sum(bool(line) and not line.startswith("#") for line in lines)

    def why_not_here(self) -> str | None:
        """Why it cannot run on this machine; None if it can."""
        import torch

        if ON_A_GPU in self.code and not torch.cuda.is_available():
            return "its kernels need a GPU, and there is none here"
        missing = [name for name in IMPORT.findall(self.code) if find_spec(name) is None]
        return f"the package {missing[0]} could not be installed" if missing else None


def recipes() -> list[Recipe]:
    """All of the page, in its order."""
    text = PAGE.read_text(encoding="utf-8")
    return [Recipe(m["file"], f"# {m['file']}\n{m['rest']}") for m in BLOCK.finditer(text)]


def train(recipe: Recipe, *more: str) -> subprocess.CompletedProcess[str]:
    """Train it as the page says, in a folder that has its file alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, recipe.file).write_text(recipe.code, encoding="utf-8")
        settings = ["preset=smoke", f"training.steps={STEPS}", *more]
        target = f"models=./{recipe.file}:{recipe.class_name}"
        return subprocess.run(
            [sys.executable, "-m", "bench.train", "tasks=regbench", target, *settings],
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def main(words: list[str]) -> int:
    """Exit code 1 when a recipe fails, or a package of one is not there.

    Args:
        words: files of the page; without any, all.
    """
    chosen = [recipe for recipe in recipes() if not words or recipe.file in words]
    if unknown := set(words) - {recipe.file for recipe in chosen}:
        raise UserError(f"docs/guests.md has no recipe {min(unknown)}")
    failed = 0
    for recipe in chosen:
        why = recipe.why_not_here()
        if why is not None:
            failed += ON_A_GPU not in recipe.code
            print(f"{recipe.file}: {'skipped' if 'GPU' in why else 'not run'}: {why}", flush=True)
            continue
        done = train(recipe)
        failed += done.returncode != OK
        print(f"{recipe.file}: {_told(done)}", flush=True)
    return RUN_FAILED if failed else OK


def _told(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == OK:
        sizes = next((line for line in done.stdout.splitlines() if " parameters, " in line), "")
        return f"trained: {sizes}"
    lines: Sequence[str] = (done.stderr.strip() or done.stdout.strip()).splitlines()
    failed = [line for line in done.stdout.splitlines() if "failed:" in line]
    return f"FAILED: {(failed or lines or ['it said nothing'])[-1]}"


if __name__ == "__main__":
    command(main)
