"""A model that cannot be made again, or that loses what training has changed, gets no training."""

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench.config.settings import Configuration
from bench.examination import repeatability, task_data
from bench.examination.repeatability import examine_configured_model, examine_repeatability
from bench.training.building import build_task
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.training import drawing_guests as guests
from tests.configurations import compose

CPU = torch.device("cpu")
SPECIFICATION = SequenceSpecification(maximum_length=12, vocabulary=7)
INPUTS = torch.randint(7, (3, 12), generator=torch.Generator().manual_seed(0))


def examined(kind: type[guests.Guest]) -> tuple[str, ...]:
    def build() -> guests.Guest:
        repeatability.seed_generators(5, CPU)
        return kind(SPECIFICATION)

    return examine_repeatability(build, INPUTS, CPU)


@pytest.mark.parametrize(
    "kind",
    [
        guests.Guest,
        guests.Tied,
        guests.WithBuffer,  # drawn from numpy.random
        guests.PythonBuffer,
        guests.SeededNoise,
        guests.Monitor,
        guests.Grown,
        guests.SharesAConstant,
    ],
)
def test_honest_models_pass(kind: type[guests.Guest]) -> None:
    assert examined(kind) == ()


def test_buffers_of_the_state_dict_that_training_changes_are_named() -> None:
    statistics = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")
    assert examined(guests.Statistics) == statistics
    assert examined(guests.Running) == ("average",)


def test_weights_that_eval_mode_changes_are_named() -> None:
    """A run saves its weights in eval mode, and loads them into a model in training mode."""
    sentence = "changes whole as it is put into eval mode .layers that merge weights do"
    with pytest.raises(UnfitModel, match=sentence):
        examined(guests.Merges)


TWICE = r"is not the same when it is built twice from one seed \(factor\): it depends on what no "
OUTPUTS = "built twice from one seed with equal weights, gives two outputs in training"
LOST = r"training changes {}.* but no checkpoint keeps it"
NO_TENSOR = LOST.format("state that is no tensor of the model")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (guests.Urandom, TWICE),
        (guests.Uuid, TWICE),
        (guests.Clock, TWICE),
        (guests.ClassCounter, TWICE),
        (guests.DefaultRng, TWICE),
        (guests.Address, TWICE),
        (guests.TextOfObject, TWICE),
        (guests.Secrets, OUTPUTS),
        (guests.PlainNumber, OUTPUTS),
        (guests.UnseededNoise, OUTPUTS),
        (guests.GatedNoise, OUTPUTS),
        (guests.OwnGenerator, NO_TENSOR),
        (guests.Counter, NO_TENSOR),
        (guests.Initialised, NO_TENSOR),
        (guests.LostRunning, LOST.format(r"average \(a buffer with persistent=False")),
        (guests.SharesALayer, r"shares trained parameters with another .* \(out.weight\)"),
        (guests.GrownAndSaved, r"state dict that the model has after .* size mismatch for table"),
    ],
)
def test_what_cannot_be_made_again_is_named(kind: type[guests.Guest], sentence: str) -> None:
    with pytest.raises(UnfitModel, match=sentence) as caught:
        examined(kind)
    assert "\n" not in str(caught.value)


def test_a_large_model_is_built_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatability, "LARGE", 10)
    built = []

    class Counted(guests.Statistics):
        def __init__(self, specification: SequenceSpecification) -> None:
            super().__init__(specification)
            built.append(self)

    assert examined(Counted)
    assert len(built) == 2


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The guests in a package of their own, which nobody has imported yet."""
    name = "package_that_draws"
    shutil.copyfile(str(guests.__file__), tmp_path / f"{name}.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield name
    sys.modules.pop(name, None)


def of(name: str, *words: str) -> Configuration:
    return compose(["tasks=state_tracking", f"models={name}", "preset=smoke", *words])


@pytest.mark.parametrize(
    ("kind", "names"), [("UnseededImport", "its outputs in training"), ("SetOrder", "factor")]
)
def test_what_differs_between_processes_is_found_by_another_one(
    stranger: str, kind: str, names: str
) -> None:
    configuration = of(f"{stranger}.{kind}")
    wrong = rf"is not the same when two processes build it from one seed \({re.escape(names)}"
    with pytest.raises(UnfitModel, match=wrong):
        examine_configured_model(configuration, build_task(configuration), CPU)


def test_what_a_module_draws_as_it_is_imported_is_the_same_in_every_process(stranger: str) -> None:
    configuration = of(f"{stranger}.ImportedBuffer")
    assert examine_configured_model(configuration, build_task(configuration), CPU) == ()


def test_only_a_task_whose_source_names_such_draws_starts_a_process(tmp_path: Path) -> None:
    asked = {
        "import torch\n\n\ndef f(x, time):\n    return x.set_(time), {1: 2}, x.seed\n": False,
        "def f(names):\n    return {*names}\n": True,
        "def f(names):\n    return {n for n in names}\n": True,
        "def f(names):\n    return list(set(names))\n": True,
        "from time import time_ns\n": True,
        "import numpy as np\nx = np.random.default_rng()\n": True,
        "import os\nx = os.urandom(4)\n": True,
        "from os import urandom as draw\n": True,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        for number, (source, differs) in enumerate(asked.items()):
            (tmp_path / f"source_{number}.py").write_text(source)
            importlib.invalidate_caches()
            found = task_data.may_differ(f"source_{number}.Model")
            assert found is differs, source


def test_buffers_that_training_changes_want_one_process() -> None:
    place = f"{guests.__name__}.Statistics"
    configuration = of(place, "training.devices=2")
    with pytest.raises(UnfitModel, match=r"norm\.running_mean, by a part of each batch"):
        examine_configured_model(configuration, build_task(configuration), CPU)


def test_a_state_dict_of_more_than_tensors_is_refused() -> None:
    configuration = of(f"{guests.__name__}.Settings")
    with pytest.raises(UnfitModel, match="has _extra_state, a dict, but files of weights"):
        examine_configured_model(configuration, build_task(configuration), CPU)
