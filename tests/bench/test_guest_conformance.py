"""The conformance tests of a model of somebody else: the contract, and no rule of this project."""

import re
from pathlib import Path

import pytest

from tests import commands
from tests.conftest import ROOT

# Without a docstring; a TypeError for real vectors; widths of its own, refused by a KeyError;
# float32 inside; and a choice by a value, which vmap does not know.
HONEST = """
import torch
from torch import nn

class Honest(nn.Module):
    def __init__(self, specification, width=48, **settings):
        super().__init__()
        if width % 24:
            raise KeyError("24")
        self.embedding = nn.Embedding(specification.vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs):
        hidden = self.embedding(inputs)
        count = torch.arange(1, inputs.shape[1] + 1)[:, None]
        mean = (hidden.float().cumsum(1) / count).to(hidden.dtype)
        if float(mean.abs().max()) < 0:
            raise RuntimeError
        return self.read_out(self.norm(mean))

    def hidden(self):
        return "a method of the same name as one that is optional"
"""
LEAKS = """
class Leaks(Honest):
    def forward(self, inputs):
        future = self.embedding(inputs).mean(1, keepdim=True)
        return super().forward(inputs) + self.read_out(0.05 * future)
"""
CHOSEN = "takes or shape or examination or stacked or safetensors or forward_reads"


@pytest.mark.long
def test_what_fails_is_the_contract(tmp_path: Path) -> None:
    (tmp_path / "a_net.py").write_text(HONEST + LEAKS)
    done = commands.run(
        *("-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfs"),
        str(ROOT / "tests" / "models" / "test_conformance.py"),
        *("-k", f"a_net and ({CHOSEN})"),
        cwd=tmp_path,
        env={"MODEL": "./a_net.py:Honest ./a_net.py:Leaks"},
    )
    failed = re.findall(r"^FAILED \S+::(\w+)\[.*:(\w+)-tokens", done.stdout, re.MULTILINE)
    assert {*failed} == {("test_passes_the_examination", "Leaks")}, done.stdout[-3000:]
    assert "its trials cannot be stacked" in done.stdout
    assert "Honest does not take channels: TypeError" in done.stdout
