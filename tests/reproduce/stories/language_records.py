"""Constructed runs on stories and on an encyclopedia, so that verdicts are known beforehand."""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import Curve, RunRecord
from reproduce.claims.verdicts import Finding
from reproduce.drawing.frame import View
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Picture
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories.language import GPT2
from reproduce.writing import write
from tests.bench.records import make_record
from tests.configurations import compose

LABELS = {"gpt2": "GPT2", "memory_mosaic": "Memory Mosaic", "unigram": "unigram"}
DOCUMENTS, SAMPLES, BIN = 40, 200, 8
SEEDS = range(3)


def sha256(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def facts(corpus: str, split: str, **changes: Any) -> dict[str, Any]:
    """What a record says of one file of a corpus."""
    content = {
        "corpus": corpus,
        "licence": "not stated",
        "source": "local file",
        "tokenizer": "grammar" if corpus == "grammar" else "gpt2",
        "tokens_sha256": sha256(corpus, split),
        "documents": 100,
        "tokens": 21_100,
        "tokens_without_ends": 21_000,
        "characters": 88_800,
        "bytes": 88_900,
    }
    return {**content, **changes}


def of_documents(
    model: str,
    seed: int,
    losses: dict[str, NDArray[np.float64]],
    corpus: str = "grammar",
    **changes: Any,
) -> RunRecord:
    """A run on the encyclopedia with the losses (documents, length) of each kind of windows.

    The bootstrap is written out here: documents are drawn by index, the same for every model.
    """
    length = next(iter(losses.values())).shape[1]
    curves, arrays = {}, {}
    positions = [float(p + 1) for p in range(length)]
    for kind, table in losses.items():
        generator = np.random.default_rng(0)
        rows = generator.integers(len(table), size=(SAMPLES, len(table)))
        samples = np.stack([table[row].mean(axis=0) for row in rows])
        bins = [samples[:, i : i + BIN].mean(axis=1) for i in range(0, length, BIN)]
        curves[f"{kind}_loss"] = Curve(x=positions, y=table.mean(axis=0).tolist())
        arrays[kind] = {
            "windows": len(table),
            "documents": len(table),
            "samples": np.stack(bins, axis=1).tolist(),
        }
    arrays["corpus"] = {split: facts(corpus, split) for split in ("train", "valid", "articles")}
    # What a target loses after so many tokens stands for the same targets after so much context.
    article = losses.get("article", np.zeros((0, length)))
    of_targets = {
        f"context_{start}_loss": article[:, start : start + 64].mean(axis=1).tolist()
        for start in range(0, length - 63 if len(article) else 0, 64)
    }
    if of_targets:
        of_targets["other_context_loss"] = of_targets["context_0_loss"]
    means = {name: float(np.mean(values)) for name, values in of_targets.items()}
    config = {
        "tasks": {"corpus": corpus, "length": length},
        "models": {"layers": 2},
        "training": {"restarts": 1},
    }
    content: dict[str, Any] = {
        "seed": seed,
        "task": "wikipedia",
        "model": model,
        "label": LABELS.get(model, model),
        "identity": sha256(model, corpus, length),
        "config": config,
        "metrics": {"test": {"loss": 1.0, **means}},
        "curves": curves,
        "arrays": arrays,
        "per_sequence": of_targets,
    }
    return make_record(**{**content, **changes})


def lost(record: RunRecord, outcome: str = "diverged") -> RunRecord:
    """The same run without any number."""
    return record.model_copy(
        update={
            "outcome": outcome,
            "cause": "the loss is not finite at step 7",
            "metrics": {},
            "curves": {},
            "arrays": {},
        }
    )


def tables(
    loss: Callable[[NDArray[np.float64], str], NDArray[np.float64]],
    kinds: tuple[str, ...] = ("stream", "article", "stories"),
    length: int = 512,
    documents: int = DOCUMENTS,
    shift: float = 0.0,
    spread: float = 0.3,
) -> dict[str, NDArray[np.float64]]:
    """Losses (documents, length): a function of the position and kind, and of the document. The
    shift doubles along the window, so that falls from one position to another have one as well."""
    of_document = spread * np.sin(1.7 * np.arange(documents))[:, None]
    noise = 0.05 * np.random.default_rng(7).standard_normal((documents, length))
    positions = np.arange(1.0, length + 1)
    shifts = shift * (1 + positions / length)
    return {kind: loss(positions, kind) + of_document + noise + shifts for kind in kinds}


def wobble(seed: int) -> float:
    return 0.002 * math.sin(12.9898 * (seed + 1))


def run(
    model: str,
    seed: int,
    words: tuple[str, ...],
    loss: float,
    train: float,
    preset: str = "smoke",
    corpus: str = "grammar",
) -> RunRecord:
    """A run on stories with the settings that its command line has."""
    choice = ("tasks=babistories", f"models={model}", f"preset={preset}")
    config = compose([*choice, f"tasks.corpus={corpus}", *words]).resolved()
    own = wobble(seed + 9 * (model == GPT2))  # no two runs agree to the last digit
    metrics = {"loss": loss + own, "train_loss": train + own}
    metrics["window_loss"] = metrics["loss"]
    curve = Curve(x=[1.0, 2.0, 3.0], y=[6.0, loss + 1 + own, loss + own])
    return make_record(
        task="babistories",
        model=model,
        label=model,
        seed=seed,
        preset=preset,
        identity=sha256(config),
        config=config,
        metrics={"test": metrics},
        curves={"training_loss": curve, "validation_loss": curve},
        arrays={"corpus": {split: facts(corpus, split) for split in ("train", "valid")}},
        per_sequence={},
    )


def written(reproduction: Experiment, records: list[RunRecord], folder: Path) -> Picture:
    """The picture that is written, the same of records in whatever order. That equal pictures give
    equal bytes is asked in test_regbench.py."""
    write("figure", reproduction, records, View("smoke"), folder)
    assert reproduction.panels is not None
    assert reproduction.draw(records[::-1]) == reproduction.draw(records)
    return Picture.read(folder / "curves.json")


def judge(reproduction: Experiment, records: list[RunRecord]) -> dict[str, Finding]:
    return {claim.name: claim.without_control(records) for claim in reproduction.claims}


def of_depths(leads: dict[int, float], **options: Any) -> list[RunRecord]:
    """Both models; the transformer loses more by the lead."""
    return [
        run(model, seed, (f"models.layers={depth}",), level, level - 0.16, **options)
        for depth, lead in leads.items()
        for model, level in ((MOSAIC, 1.499), (GPT2, 1.499 + lead))
        for seed in SEEDS
    ]


def without(record: RunRecord, key: str) -> RunRecord:
    """The record of a run that was made before there was that setting."""
    section, _, name = key.partition(".")
    own = {k: v for k, v in record.config[section].items() if k != name}
    return record.model_copy(update={"config": {**record.config, section: own}})
