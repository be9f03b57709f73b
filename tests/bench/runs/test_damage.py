"""Promise 13: a flipped bit of what is served or gone on from is refused, or changes nothing.

``MEMORY_BENCH_FLIPS=200`` flips more bits than the suite has time for. Checkpoints, which are not
refused but made again, have their test beside the loop, and journals theirs beside the search.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from bench import train
from bench.records.schema import read_record
from bench.runs.making import DIVERGED, TrainingRun
from bench.runs.serving import identify
from bench.runs.summaries import DivergedSummary, TrainedSummary, read_summary
from bench.training.storage import read_weights
from bench.training.training import TrainingDiverged, TrainingReport
from core.errors import UserError
from core.files import write_sealed
from core.progress import silent
from tasks.text.corpora import articles_corpus
from tasks.text.errors import TextError
from tasks.text.preparation import prepare
from tasks.text.stream import TokenStream
from tasks.text.tokenizers import load_tokenizer
from tests.bench.damage import FLIPS, flips
from tests.bench.runs.test_runs import only_record, weights, words
from tests.configurations import compose
from tests.conftest import Command
from tests.power_cut import PowerCut, restore
from tests.watching import time_limit

pytestmark = pytest.mark.bitwise  # what is trained again, or served, is the same

STEPS = ["training.steps=12", "training.checkpoint_every=5"]


class Disks:
    """A store, and what a power cut at any moment of the run that filled it would have left."""

    def __init__(self, store: Path, cuts: PowerCut) -> None:
        self.store, self.cuts = store, cuts
        (self.work,) = (store / "work").iterdir()
        self.trained_weights = weights(store)


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Disks:
    root = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        cuts = PowerCut(root, patch)
        assert train.main(words(root / "store", *STEPS)) == 0
    cuts.close()
    return Disks(root / "store", cuts)


def test_whenever_the_power_fails_nothing_is_half_there_and_the_run_goes_on(
    disks: Disks, run_here: Command, tmp_path: Path
) -> None:
    moments: dict[frozenset[str], int] = {}  # files that are there -> the last such disk
    for number, disk in enumerate(disks.cuts.disks):
        root = tmp_path / str(number)
        restore(disk, root)
        kept = {path.name: path for path in root.rglob("[!.]*") if path.is_file()}
        moments[frozenset(kept)] = number
        if "trained.json" in kept:  # each file has what the next one tells of
            sha256 = read_summary(kept["trained.json"], TrainedSummary).weights_sha256
            read_weights(kept["weights.safetensors"], sha256)
        for path in root.rglob("records/[!.]*"):
            assert read_record(path).weights_sha256 == sha256
    assert any({"checkpoint-0.pt", "trained.json"} < names for names in moments)
    whole = disks.cuts.certain
    assert {Path(place).name for place in whole} == {
        *("weights.safetensors", "trained.json", "lock", "layout.json"),
        f"{disks.work.name}.json",
    }
    for number in moments.values():
        store = tmp_path / str(number) / "store"
        done = run_here(train.main, *words(store, *STEPS))
        assert (done.returncode, "damaged" in done.stderr) == (0, False), done.stderr
        assert weights(store) == disks.trained_weights
        assert only_record(store).metrics == only_record(disks.store).metrics
        assert not [*store.glob("**/*.partial"), *store.glob("**/*.pt")]


def test_a_damaged_checkpoint_and_what_a_killed_writer_left_cost_nothing_but_time(
    disks: Disks, run_here: Command, tmp_path: Path
) -> None:
    restore(next(d for d in disks.cuts.disks if any("/checkpoint-0" in p for p in d)), tmp_path)
    store = tmp_path / "store"
    (checkpoint,) = store.glob("work/*/checkpoint-0.pt")
    checkpoint.write_bytes(next(flips(checkpoint.read_bytes(), 1)))
    names = (checkpoint.name, "weights.safetensors", "trained.json")
    rests = [checkpoint.with_name(name) for name in names]
    rests.append(store / "records" / f"{disks.work.name}.json")
    rests[-1].parent.mkdir()
    for path in rests:
        path.with_name(f".{path.name}.partial").write_bytes(b"half of it")
    done = run_here(train.main, *words(store, *STEPS))
    assert done.returncode == 0, done.stderr
    assert f"the checkpoint {checkpoint} is damaged" in done.stderr
    assert weights(store) == disks.trained_weights
    assert only_record(store).metrics == only_record(disks.store).metrics
    assert only_record(store).curves == only_record(disks.store).curves
    assert not list(store.rglob(".*"))


def stream(folder: Path) -> Path:
    text = folder / "text.jsonl"
    text.write_text("".join(json.dumps(f"Story {k} of a cat.") + "\n" for k in range(300)))
    corpus = articles_corpus("local", path=text)
    return prepare(corpus, "articles", load_tokenizer("grammar"), folder / "prepared").folder


def diverged(store: Path) -> Path:
    """The end of a training in this store, as a run keeps it for the tasks that it is for."""
    work = store / "work" / "diverged"
    run = TrainingRun(identify(compose(words(store, *STEPS))), work, silent)
    work.mkdir(exist_ok=True)
    report = TrainingReport(steps=3, tokens=4096, loss_steps=[1, 2], losses=[2.25, 1875.5])
    run._keep_diverged(TrainingDiverged("the loss was nan at step 3", report))
    return store


def read_stream(path: Path) -> Any:
    opened = TokenStream.open(path.parent)
    return opened.tokens.tolist(), opened.starts.tolist(), opened.manifest


Kind = tuple[str, Callable[[Path], Any]]
KINDS: dict[str, Kind] = {
    "trained.json": ("work/*/trained.json", lambda path: read_summary(path, TrainedSummary)),
    "weights": (
        "work/*/weights.safetensors",
        lambda path: read_weights(
            path, read_summary(path.parent / "trained.json", TrainedSummary).weights_sha256
        ),
    ),
    DIVERGED: (f"work/*/{DIVERGED}", lambda path: read_summary(path, DivergedSummary)),
    "record": ("records/*.json", read_record),
    "tokens": ("tokens.bin", read_stream),
    "starts": ("starts.bin", read_stream),
    "manifest": ("manifest.json", read_stream),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused_or_changes_nothing(
    kind: str, disks: Disks, tmp_path: Path
) -> None:
    pattern, read = KINDS[kind]
    of_run = "/" in pattern
    folder = Path(shutil.copytree(disks.store, tmp_path / "s")) if of_run else stream(tmp_path)
    if kind == DIVERGED:
        diverged(folder)
    (path,) = folder.glob(pattern)
    good, whole = repr(read(path)), path.read_bytes()
    refusals = []
    for damaged in flips(whole, FLIPS):
        path.write_bytes(damaged)
        try:
            assert repr(read(path)) == good
        except (UserError, TextError) as error:
            refusals.append(str(error))
    assert all(path.name in sentence for sentence in refusals)
    assert len(refusals) > 0.7 * FLIPS  # a blank that became a tab changes nothing


def strange(kind: str, work: Path) -> Path:
    """What no run leaves, in the folder of a run."""
    summary, file = work / "trained.json", work / "weights.safetensors"
    content = json.loads(summary.read_bytes().splitlines()[0])
    if kind.startswith("pipe"):
        path = work / kind.removeprefix("pipe ")
        path.unlink()
        os.mkfifo(path)
        return path
    if kind == "losses that are none":
        content["report"]["loss_steps"] = [{}]
    elif kind != "deep":
        weights = b"no weights" if kind == "no weights" else save({"x": torch.zeros(1)})
        file.write_bytes(weights)
        content["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    write_sealed(summary, b"[" * 100_000 if kind == "deep" else json.dumps(content).encode())
    return summary if kind in ("losses that are none", "deep") else file


KINDS_OF_STRANGE = ["losses that are none", "deep", "no weights", "weights of another model"]


@pytest.mark.parametrize(
    "kind", [*KINDS_OF_STRANGE, "pipe trained.json", "pipe weights.safetensors"]
)
def test_what_a_stranger_left_in_a_store_is_one_sentence(
    kind: str, disks: Disks, run_here: Command, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(disks.store, tmp_path / "store"))
    for record in store.glob("records/*.json"):
        record.unlink()  # or nothing but the record would be read
    path = strange(kind, store / "work" / disks.work.name)
    with time_limit():
        done = run_here(train.main, *words(store, *STEPS))
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_a_damaged_training_is_refused_and_one_of_an_earlier_version_is_served(
    disks: Disks, run_here: Command, tmp_path: Path
) -> None:
    store = Path(shutil.copytree(disks.store, tmp_path / "store"))
    (path,) = store.glob("work/*/trained.json")
    (record,) = store.glob("records/*.json")
    record.unlink()  # or nothing but the record would be read
    good = path.read_bytes()
    place = good.index(b'"losses": [') + 11  # the first digit
    path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    done = run_here(train.main, *words(store, *STEPS))
    assert done.returncode == 1
    assert f"{path} is damaged or edited: delete the folder" in done.stderr
    # Without a seal, as earlier versions wrote it, and with a step beyond counting.
    unsealed = good.splitlines()[0].decode()
    huge = re.sub(r'("loss_steps": \[)\d+', rf"\g<1>{10**400}", unsealed)
    assert huge != unsealed
    path.write_text(huge)
    done = run_here(train.main, *words(store, *STEPS))
    assert done.returncode == 1
    assert f"{path} is damaged or edited: delete the folder" in done.stderr
    path.write_bytes(good.splitlines()[0])
    done = run_here(train.main, *words(store, *STEPS))
    assert done.returncode == 0
    assert only_record(store).curves == only_record(disks.store).curves
