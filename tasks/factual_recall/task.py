"""Factual recall by a one-layer transformer: how many facts for how many parameters.

Nichani, Lee and Bietti 2025, Understanding factual recall in transformers via associative memories
(arXiv 2412.06538).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import torch

from tasks.capacity.search import largest
from tasks.factual_recall.facts import Facts
from tasks.factual_recall.phases import CURVES, learn, plateau, published_facts
from tasks.factual_recall.stack import train
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement, Refused
from tasks.refusals import check_numbers, check_whole_numbers, fitting_model
from tasks.seeds import generator_of, seed_of

PARTS = ("phase_diagram", "facts_by_parameters", "phases")
CHOOSE_TRANSFORMER = (
    "phase_diagram and facts_by_parameters train transformers of facts: choose "
    "models=fact_transformer, or models=one_hot_attention with tasks.part=phases"
)
CHOOSE_ATTENTION = (
    "tasks.part=phases trains linear attention between one-hot tokens: choose "
    "models=one_hot_attention, or another part for models=fact_transformer"
)
HEADS, LENGTH = 8, 32  # of the published search over the number of facts
# The search begins and ends with so many relations R, so that S = R or S = R² is from 8 to 512.
RELATIONS = {1: (8, 512), 2: (3, 22)}


class FactualRecall(Measurement):
    """Three experiments on one task; ``part`` chooses.

    * "phase_diagram": the best accuracy for each number of heads and width of the MLP;
    * "facts_by_parameters": the largest number of facts S R that are recalled, by bisection over
      R, for several sizes of the transformer (8 heads, length 32, S + R tokens of noise). As
      published, S = R with 8 answers of each relation; the variants are S = R² and D = S;
    * "phases": the loss while linear attention learns 64 facts, with the published sizes. Its
      model is ``one_hot_attention``, that of the others ``fact_transformer``.

    Example: 2 subjects (0, 1), 2 relations (2, 3), 3 tokens of noise (4 to 6), the end 7, 2
    answers of each relation, ``length=6``; facts and sequences of seed 0. A model sees how often
    each token is there, not where, and is asked for one answer after the whole sequence:

        facts    (0, 2) → 0   (0, 3) → 3   (1, 2) → 1   (1, 3) → 2
        input    {0, 3, 4, 5, 5, 7}   subject 0, relation 3     target  3
                 {1, 2, 4, 5, 5, 7}   subject 1, relation 2     target  1

    Weights must hold the fact of each pair: nothing in the sequence tells it. Who knows the
    relation alone is right with 1/D, at a loss of ln D, which is the plateau of "phases".

    Args:
        part: one of the above.
        subjects, relations, choices, noise, length: the facts of the phase diagram, whose noise is
            a number of tokens and whose answers are ``choices`` for each relation.
        width, head_size: d and d_h of the phase diagram.
        heads, mlp_widths: its axes; a width of 0 is attention alone.
        widths, attention_ratios, mlp_ratios: d of the search, H d_h / d and m / d, each ratio of
            attention with each of the MLP.
        subject_power: S = R to this power in the search, 1 or 2.
        search_choices: D of the search; None: as many as there are subjects.
        learning_rates: of the diagram; all of them are tried, the best counts.
        search_learning_rates: of the search. They are tried side by side until one recalls the
            facts, which decides as trying one after the other does.
        batch_size, steps, check_every: sequences of a step, steps, and steps between two checks.
        phase_steps: steps of the third part.

    Raises:
        ValueError: a setting outside its range.
    """

    headline = Metric("facts_per_parameter", "maximise")

    def __init__(
        self,
        part: str = "phase_diagram",
        subjects: int = 32,
        relations: int = 32,
        choices: int = 8,
        noise: int = 64,
        length: int = 32,
        width: int = 32,
        head_size: int = 8,
        heads: Sequence[int] = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
        mlp_widths: Sequence[int] = (1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128),
        widths: Sequence[int] = (8, 11, 16, 22, 32, 45, 64, 90, 128, 181),
        attention_ratios: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
        mlp_ratios: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
        learning_rates: Sequence[float] = (0.01,),
        subject_power: int = 1,
        search_choices: int | None = 8,
        search_learning_rates: Sequence[float] = (0.001, 0.003, 0.01),
        batch_size: int = 1024,
        steps: int = 16384,
        check_every: int = 128,
        phase_steps: int = 8192,
    ) -> None:
        if part not in PARTS:
            raise ValueError(f"part={part} is unknown: give {', '.join(PARTS)}")
        sizes = (subjects, relations, choices, noise, width, head_size)
        if min(*sizes, batch_size, steps, check_every, phase_steps) < 1:
            raise ValueError(
                "numbers of subjects, relations, choices, noise, width, head_size, batch_size, "
                "steps, check_every and phase_steps are at least 1"
            )
        check_whole_numbers("heads", heads)
        check_whole_numbers("mlp_widths", mlp_widths, 0)
        check_whole_numbers("widths", widths)
        if length < 3:
            raise ValueError(
                f"length={length} has no room for a subject, a relation and the end: give 3 or more"
            )
        check_numbers("attention_ratios", attention_ratios, 0)
        check_numbers("mlp_ratios", mlp_ratios, 0)
        check_numbers("learning_rates", learning_rates, 0)
        check_numbers("search_learning_rates", search_learning_rates, 0)
        if subject_power not in RELATIONS:
            raise ValueError(
                f"tasks.subject_power is {subject_power}, expected 1 (S = R) or 2 (S = R²)"
            )
        if search_choices is not None and search_choices < 1:
            raise ValueError(
                f"tasks.search_choices is {search_choices}, expected a number from 1 on, or null "
                "for as many answers as subjects"
            )
        self.part = part
        self.facts = (subjects, relations, choices, noise, length)
        self.width, self.head_size = width, head_size
        self.heads, self.mlp_widths = list(heads), list(mlp_widths)
        self.widths = sorted(widths)
        self.ratios = [(a, b) for a in attention_ratios for b in mlp_ratios]
        self.learning_rates = list(learning_rates)
        self.subject_power, self.search_choices = subject_power, search_choices
        self.search_learning_rates = list(search_learning_rates)
        self.batch_size, self.steps, self.check_every = batch_size, steps, check_every
        self.phase_steps = phase_steps

    def data_hashes(self) -> dict[str, str]:
        """Split -> SHA-256 of the facts and the first sequences of the diagram with seed 0."""
        hashes = {}
        for split in ("validation", "test"):
            facts = Facts.random(*self.facts, generator_of("facts", split, 0))
            counts, _, _ = facts.sequences(64, generator_of("sequences", split, 0))
            content = facts.answers.numpy().tobytes() + counts.numpy().tobytes()
            hashes[split] = hashlib.sha256(content).hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """The diagram gives ``arrays["accuracy"]`` (heads, MLP widths) and parameters by cell. The
        search gives arrays of parameters, facts, relations, widths and ratios by point. The
        phases give curves by step and the length of the plateau in steps.

        Raises:
            Refused: the model is not that of the part, or no transformer of the search has room for
                its heads.
        """
        if self.part == "phases":
            return self._phases(build, split, seed, report)
        if self.part == "phase_diagram":
            return self._diagram(build, split, seed, report)
        return self._search(build, split, seed, report)

    def _diagram(self, build: Build, split: Split, seed: int, report: Report) -> Evaluation:
        facts = Facts.random(*self.facts, generator_of("facts", split, seed))
        accuracy, steps = [], []
        total = len(self.heads)
        for row, heads in enumerate(self.heads):

            def at(step: int, row: int = row, heads: int = heads) -> None:
                report(f"{heads} heads, step {step} of {self.steps}", row, total)

            # Each width of the MLP with each step size, all of them at once.
            sizes = [(width, lr) for width in self.mlp_widths for lr in self.learning_rates]
            models = [
                _transformer(
                    build,
                    facts,
                    (self.width, self.head_size, heads, m),
                    seed_of(split, seed, heads, m),
                )
                for m, _ in sizes
            ]
            best, last = self._train(
                models, [lr for _, lr in sizes], facts, ("diagram", split, seed, heads), at
            )
            each = len(self.learning_rates)
            # Of a cell with several step sizes the best accuracy and the fewest steps.
            accuracy.append([max(best[k : k + each]) for k in range(0, len(best), each)])
            steps.append([min(last[k : k + each]) for k in range(0, len(last), each)])
        report("measured", total, total)
        # Published axes: d d_h H of the 4 d d_h H parameters, and d m of the 2 d m.
        attention = [self.width * self.head_size * heads for heads in self.heads]
        mlp = [self.width * width for width in self.mlp_widths]
        cells = [
            (4 * a + 2 * m, accuracy[i][j])
            for i, a in enumerate(attention)
            for j, m in enumerate(mlp)
        ]
        # The smallest transformer that recalls all facts decides facts per parameter.
        enough = [parameters for parameters, share in cells if share >= 0.99]
        number = self.facts[0] * self.facts[1]
        return Evaluation(
            {
                "facts_per_parameter": number / min(enough) if enough else 0.0,
                "accuracy": sum(share for _, share in cells) / len(cells),
                "parameters": float(min(enough, default=0)),
            },
            arrays={
                "accuracy": accuracy,
                "steps": steps,
                "attention_parameters": attention,
                "mlp_parameters": mlp,
                "heads": self.heads,
                "mlp_widths": self.mlp_widths,
            },
        )

    def _train(
        self,
        models: Sequence[torch.nn.Module],
        lrs: Sequence[float],
        facts: Facts,
        names: Sequence[str | int],
        report: Callable[[int], None],
        any_is_enough: bool = False,
    ) -> tuple[list[float], list[int]]:
        return train(
            models,
            lrs,
            facts,
            generator_of("sequences", *names),
            batch_size=self.batch_size,
            steps=self.steps,
            check_every=self.check_every,
            success=0.99,
            any_is_enough=any_is_enough,
            report=report,
        )

    def _search(self, build: Build, split: Split, seed: int, report: Report) -> Evaluation:
        points: dict[str, list[float]] = {
            name: []
            for name in (
                "width",
                "attention_ratio",
                "mlp_ratio",
                "parameters",
                "relations",
                "facts",
            )
        }
        first, most = RELATIONS[self.subject_power]
        # Searches of one ratio go up in width: each starts from what the narrower one recalled.
        start = dict.fromkeys(self.ratios, first)
        cells = [
            (width, ratio, head_size, hidden)
            for width in self.widths
            for ratio in self.ratios
            if (head_size := int(ratio[0] * width / HEADS)) and (hidden := int(ratio[1] * width))
        ]
        if not cells:
            raise Refused(
                f"no transformer of tasks.widths={self.widths} has {HEADS} heads and an MLP of at "
                "least one dimension each at these ratios: give larger widths, or larger "
                "tasks.attention_ratios and tasks.mlp_ratios"
            )
        for done, (width, ratio, head_size, hidden) in enumerate(cells):

            def recalled(
                trials: list[int],
                relations: int,
                sizes: tuple[int, int, int] = (width, head_size, hidden),
                done: int = done,
            ) -> list[float]:
                names = (split, seed, *sizes, relations)
                subjects = relations**self.subject_power
                facts = Facts.random(
                    subjects,
                    relations,
                    subjects if self.search_choices is None else self.search_choices,
                    subjects + relations,
                    LENGTH,
                    generator_of("facts", *names),
                )
                # Each step size starts from the same weights and sees the same sequences.
                (d, head, m), start_at = sizes, seed_of(*names)
                built = [
                    _transformer(build, facts, (d, head, HEADS, m), start_at)
                    for _ in self.search_learning_rates
                ]

                def at(step: int) -> None:
                    where = f"d = {sizes[0]}, {subjects} × {relations} facts, step {step}"
                    report(where, done, len(cells))

                best, _ = self._train(built, self.search_learning_rates, facts, names, at, True)
                # The best of all step sizes, as trying them one after the other until one succeeds
                # would find.
                return [max(best)]

            most_relations = largest(recalled, 1, 0.99, start=start[ratio], most=most)[0].low
            # Where nothing was recalled, the next width begins below the published least number.
            start[ratio] = max(first // 2, most_relations)
            # Q, K, V and O of each head, and both maps of the MLP; embeddings are not trained.
            parameters = 4 * HEADS * head_size * width + 2 * hidden * width
            # S R = R^(power + 1).
            facts_recalled = most_relations ** (self.subject_power + 1)
            row = (width, *ratio, parameters, most_relations, facts_recalled)
            for name, value in zip(points, row, strict=True):
                points[name].append(float(value))
        report("measured", len(cells), len(cells))
        # Least squares through the origin: Σ p f / Σ p².
        squares = sum(p * p for p in points["parameters"])
        products = sum(p * f for p, f in zip(points["parameters"], points["facts"], strict=True))
        return Evaluation(
            {
                "facts_per_parameter": products / squares if squares else 0.0,
                "parameters": max(points["parameters"], default=0.0),
            },
            arrays=dict(points),
        )

    def _phases(self, build: Build, split: Split, seed: int, report: Report) -> Evaluation:
        facts = published_facts()
        sizes = (facts.vocabulary, facts.classes)
        model = fitting_model(build, *sizes, seed=seed, choose=CHOOSE_ATTENTION)
        total = self.phase_steps
        logged = learn(
            model,
            facts,
            generator_of("phases", split, seed),
            self.batch_size,
            total,
            lambda step: report(f"step {step}", step, total),
        )
        parameters = sum(p.numel() for p in model.parameters())
        number = facts.subjects * facts.relations
        accuracy = logged["accuracy"][-1]
        # argmax of NaN names some answer, which would count as right now and then.
        if not math.isfinite(logged["loss"][-1]):
            accuracy = 0.0
        return Evaluation(
            {
                "facts_per_parameter": number * accuracy / parameters,
                "accuracy": accuracy,
                "plateau_steps": plateau(logged, facts.choices),
                "parameters": float(parameters),
            },
            curves={name: {"x": logged["step"], "y": logged[name]} for name in CURVES},
        )


def _transformer(
    build: Build, facts: Facts, sizes: tuple[int, int, int, int], seed: int
) -> torch.nn.Module:
    """A transformer with ``sizes``: d, d_h, heads and width of the MLP."""
    return fitting_model(
        build, facts.vocabulary, facts.classes, *sizes, seed=seed, choose=CHOOSE_TRANSFORMER
    )
