"""What Lightning's import leaves out, and that nothing but time is saved by it."""

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from bench.training.trainer import packages_hidden
from tests import commands

# Trains with Lightning as the engine imports it, then with all of it, in one fresh process.
TWICE = """
import hashlib, sys, tempfile
from pathlib import Path
import torch
from tests.configurations import compose
from bench.training.building import build_model, build_task

LEFT_OUT = {"matplotlib", "scipy", "transformers"}
words = ["tasks=multi_query_recall", "models=gpt2", "training.steps=3", "training.batch_size=4"]
words += ["models.width=16", "models.layers=1", "models.heads=2", "models.dropout=0.1"]
configuration = compose(words)
task = build_task(configuration)

def weights():
    from bench.training.loop import fit
    model = build_model(configuration, task, 0)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        place = torch.device("cpu")
        fit(model, task, configuration.training, seed=0, device=place, checkpoint=checkpoint)
    numbers = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    return hashlib.sha256(b"".join(numbers)).hexdigest()

lean = weights()
assert not LEFT_OUT & set(sys.modules), LEFT_OUT & set(sys.modules)
import matplotlib.pyplot, scipy.signal, torchmetrics, transformers
assert scipy.signal.convolve([1.0], [2.0]) == [2.0]
assert torchmetrics.MeanMetric()(torch.tensor([1.0, 3.0])) == 2.0
assert transformers.GPT2Config(n_layer=3).n_layer == 3
for name in list(sys.modules):
    if name.partition(".")[0] in ("lightning", "lightning_utilities", "torchmetrics"):
        del sys.modules[name]
del sys.modules["bench.training.loop"], sys.modules["bench.training.trainer"]
import lightning.pytorch, torchmetrics.functional.text
assert hasattr(torchmetrics.functional.text, "bert_score")  # all of it, this time
assert weights() == lean
"""


@pytest.mark.processes
def test_what_is_left_out_changes_no_weight_and_is_there_afterwards() -> None:
    done = commands.run("-c", TWICE)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that nobody has imported."""
    (tmp_path / "seldom_used.py").write_text("VALUE = 7\n")
    (tmp_path / "seldom_used-1.2.dist-info").mkdir()
    (tmp_path / "seldom_used-1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: seldom_used\nVersion: 1.2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "seldom_used"
    sys.modules.pop("seldom_used", None)


def test_a_hidden_package_is_absent_for_all_who_ask_and_back_afterwards(package):
    with packages_hidden(package):
        assert importlib.util.find_spec(package) is None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(package)
        with pytest.raises(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(package)
        assert importlib.metadata.version("torch")
    assert importlib.metadata.version(package) == "1.2"
    assert importlib.import_module(package).VALUE == 7


def test_an_error_inside_hides_nothing_for_long(package):
    finders = list(sys.meta_path)
    with pytest.raises(ImportError), packages_hidden(package):
        importlib.import_module(package)
    assert sys.meta_path == finders
    assert importlib.import_module(package).VALUE == 7


def test_what_is_imported_already_stays(package):
    module = importlib.import_module(package)
    with packages_hidden(package):
        assert importlib.import_module(package) is module
        assert importlib.metadata.version(package) == "1.2"
    assert sys.modules[package] is module


def test_a_training_asks_no_mpi(tmp_path: Path) -> None:
    """Lightning would start MPI where mpi4py is installed, which may never come back."""
    (tmp_path / "mpi4py.py").write_text("MPI = None")
    installed = tmp_path / "mpi4py-4.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mpi4py\nVersion: 4.1.0\n")
    script = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
from bench.training.loop import trainer_of
from bench.training.trainer import Trainer
from tests.configurations import compose
settings = compose(["tasks=regbench", "models=gpt2"]).training
trainer_of(settings, torch.device("cpu"), 1)
asked_by_us = "mpi4py" in sys.modules
try:
    Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
except AttributeError:  # None has no world
    pass
print(json.dumps([asked_by_us, "mpi4py" in sys.modules]))
"""
    done = commands.run("-c", script, str(tmp_path))
    assert json.loads(done.stdout) == [False, True], done.stderr
