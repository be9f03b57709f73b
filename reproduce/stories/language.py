"""What the figures and tables on language share: their corpus, their losses, the published scale.

A corpus is never mixed with another one in a figure, and whatever is shown or judged says which one
it was: losses of another corpus, or in tokens of another tokenizer, cannot be compared with the
published ones. Example of a rule::

    once(at_published_scale("published losses"), within(loss("loss").of(runs), 1.47, 1.51))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from core.errors import UserError
from core.statistics import REAL
from reproduce.claims import presets
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Number, Ready, Records, Rule, Runs, told, within
from reproduce.claims.verdicts import Finding, not_asked
from reproduce.experiment import Experiment, OverSeeds, Settings, Sweep
from reproduce.plotting.models import label
from reproduce.published.numbers import published_numbers

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
GPT2 = "gpt2"
LABELS = {name: label(name) for name in ("memory_mosaic", GPT2, "mamba", "s4d", "lstm")}
SEEDS = 3
TUNED = ("laptop",)  # presets at which each model has its own learning rate
SEARCHED = "training.lr"
BABISTORIES = "babistories"
ON_BABISTORIES = "corpus=babistories stories=FOLDER"  # words by which a figure reads the files
# A loss after training -> its split; and as it was published, of random windows.
METRICS = {"train_loss": "training", "loss": "validation"}
PUBLISHED_METRICS = {"train_loss": "train_loss", "loss": "window_loss"}
# What a model loses that knows nothing of GPT-2's 50,257 tokens: the worst that a loss counts as.
UNINFORMED = math.log(50_257)
LEARNED = 1.0  # nats of training loss


Cells = Callable[[str], Sequence[tuple[Sequence[str], Settings]]]  # of a preset: models, settings


def trainings(task: str, cells: Cells) -> dict[str, Any]:
    """What is run of models on one task at several settings: where each model has its own learning
    rate, a sweep for each setting, from the same grid; else a run of each model for each seed.

    Args:
        cells: of a preset the settings, each with its models.
    """

    def sweeps(preset: str) -> list[Sweep]:
        planned = []
        for models, settings in cells(preset) if preset in TUNED else ():
            # The grid may get two values on each side, for all models alike.
            planned.append(Sweep(task, models, {**settings, "sweep.extend": 2}))
        return planned

    def runs(preset: str) -> list[OverSeeds]:
        planned = []
        for models, settings in () if preset in TUNED else cells(preset):
            planned.append(OverSeeds(task, models, settings, seeds=SEEDS))
        return planned

    return {"sweeps": sweeps, "runs": runs}


def tuned(records: Iterable[RunRecord]) -> list[RunRecord]:
    """At the presets with sweeps the runs whose learning rate was searched, if there are any:
    another figure may have made others."""
    records = list(records)
    searched = [record for record in records if record.role == "baseline" or _searched(record)]
    return searched if trained(searched) else records


def _searched(record: RunRecord) -> bool:
    """Whether its learning rate was."""
    study = record.study if record.preset in TUNED else None
    return study is not None and SEARCHED in study.search_space


def trained(records: Iterable[RunRecord]) -> list[RunRecord]:
    """All but the predictors without training."""
    return [record for record in records if record.role != "baseline"]


def experiment(title: str, source: str, claims: Iterable[Claim], **others: Any) -> Experiment:
    """A figure or table on language: its note and all evidence say on which corpus."""
    told_corpus = partial(told, before=lambda records: f"{corpus_line(records)}: ")
    told_claims = [replace(claim, rule=told_corpus(claim.rule)) for claim in claims]
    return Experiment(title, source, told_claims, note=corpus_line, **others)


def chosen_runs(
    records: Records,
    models: Collection[str],
    belongs: Callable[[RunRecord], bool],
    varied: Collection[str],
) -> list[RunRecord]:
    """Runs of these models on stories, with the settings of their preset but for ``varied``.

    Args:
        belongs: whether the figure shows these values of what it varies.

    Raises:
        UserError: there are runs, and none of them belongs; or they are of several corpora.
    """
    runs = [r for r in trained(records) if r.task == "babistories" and r.model in models]
    chosen = list(filter(belongs, runs))
    if runs and not chosen:
        raise UserError(
            f"no run has settings that this figure shows at preset {runs[0].preset}: it varies "
            f"{', '.join(varied)} itself, so leave them out"
        )
    free = (*varied, SEARCHED) if all(map(_searched, chosen)) else varied
    return presets.as_preset(of_one_corpus(chosen), but=free)


def of_one_corpus(
    records: Iterable[RunRecord], windows: Callable[[RunRecord], object] = lambda record: None
) -> list[RunRecord]:
    """The records, sorted by run id.

    Args:
        windows: what tells the windows apart that a run was measured on, if the figure compares it.

    Raises:
        UserError: they are of different corpora, or were measured on different windows.
    """
    ordered = sorted(records, key=lambda record: record.run_id)

    def values(record: RunRecord) -> dict[str, object]:
        facts = record.arrays.get("corpus", {}).items()
        seen = {f"text in the split '{k}'": (v["corpus"], v["tokens_sha256"]) for k, v in facts}
        return {"corpora": corpus_name([record]), **seen, "windows": windows(record)}

    def sentence(key: str, first: object, second: object) -> str:
        names = f" ({first} and {second})" if key == "corpora" else ""
        return (
            f"are of different {key}{names}, and one figure compares models on the same: keep the "
            "records of one of them"
        )

    presets.refuse_mixtures(ordered, values, sentence)
    return ordered


def corpus_name(records: Records) -> str:
    """The configured name: "grammar", "local", "babistories" or "tinystories"; "" of no records."""
    return str(records[0].config["tasks"]["corpus"]) if records else ""


def corpus_facts(records: Records) -> dict[str, dict[str, Any]]:
    """Split -> name, licence, source, hash and counts, as the records hold them; a run that failed
    holds none."""
    facts: dict[str, dict[str, Any]] = {}
    for record in records:
        facts |= record.arrays.get("corpus", {})
    return facts


def corpus_line(records: Records) -> str:
    """Such as "corpus: grammar (generated) · tokens of the grammar tokenizer"."""
    if not records:
        return "corpus: none"
    facts = corpus_facts(records)
    if "train" not in facts:
        return f"corpus: {corpus_name(records)}"
    parts = [_described(facts["train"])]
    if "articles" in facts and _described(facts["articles"]) not in parts:
        parts.append(f"articles: {_described(facts['articles'])}")
    return f"corpus: {' · '.join(parts)} · tokens of the {facts['train']['tokenizer']} tokenizer"


def _described(facts: Mapping[str, Any]) -> str:
    if facts["corpus"] == "grammar":
        return "grammar (generated)"
    digits = facts["tokens_sha256"][:8]
    return f"{facts['corpus']} ({facts['source']}, licence {facts['licence']}, sha256 {digits})"


def at_published_scale(topic: str, of: Callable[[Records], list[RunRecord]] = trained) -> Ready:
    """Ready for published losses, the topic: those of another corpus or scale say nothing of them.

    Args:
        of: the runs whose settings have to be the published ones.
    """

    def ready(records: Records) -> Finding | None:
        reason = "losses of another corpus differ: use corpus=babistories preset=paper"
        if corpus_name(records) == BABISTORIES:
            if all(map(presets.of_published_scale, of(records))):
                return None
            reason = "losses of another scale differ: use preset=paper as it is"
        return not_asked(topic, reason, "paper")

    return ready


def loss(metric: str, measured: str | None = None, **changes: Any) -> Number:
    """A loss after training, in the words of ``metric`` even where another one is ``measured``. Of
    a run that gave none it may have been anything up to that of a model that knows nothing."""
    name = f"{METRICS[metric]} loss"
    return Number(name, measured or metric, bounds=(0.0, UNINFORMED), **changes)


def learned(runs: Runs) -> Rule:
    """Models that have learned something: two that have not are equal, or one ahead of the other by
    how it begins, for no reason."""

    def fall(record: RunRecord) -> float | None:
        curve = record.curves.get("training_loss")
        return None if curve is None else curve.y[0] - curve.y[-1]

    return within(Number("fall of the training loss", fall, REAL).of(runs), low=LEARNED)


def published_number(short: str, name: str, label: str) -> float | None:
    """The single number of a label; None where the run failed."""
    return next(iter(published_numbers(short, name)[label].values()), None)
