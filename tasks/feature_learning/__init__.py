"""How far one gradient step moves features, beside how long they are at the start.

Bietti 2024, Associative memories as a tractable building block in transformers (slides), "Link with
feature learning": from the standard start W₀ with entries N(0, 1/d), maximal updates have
|W₀ u| = Θ(1) and |ΔW u| = Θ(1) for each input embedding u, which is not true of the tangent kernel.
The slides have no experiment; this protocol is of this project.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.refusals import check_whole_numbers
from tasks.seeds import generator_of

Scaling = Literal["maximal", "tangent"]


class FeatureLearning(Measurement):
    """Norms of features W u before a gradient step and of what the step adds, by the width d.

    Inputs u_j, j = 1 … N, have entries N(0, 1/d), as has W₀ (d, d); j has the class j, and the
    logits are v_kᵀ W u_j. One step on the mean cross-entropy over all N adds
    ΔW = (η/N) Σ_jk (1{k = j} − p̂(k | j)) v_k u_jᵀ, which is written into a memory that sums outer
    products. Both scalings have steps that change logits by Θ(1):

    * "maximal": v_k has entries N(0, 1/d), and η = N;
    * "tangent": v_k has entries N(0, 1), as of a start whose logits are Θ(1), and η = N/d.

    Example: ``widths=[2], pairs=1`` would be u = (1, 0), v = (0, 1) and one class, which is
    right before the step: ΔW = 0. With many classes p̂ is about 1/N, and ΔW u_j about v_j η/N.

    Args:
        widths: rising values of d.
        pairs: N.
        scaling: of the output embeddings and of the step.
        trials: independent draws, over which a norm is a mean.

    Raises:
        ValueError: a number out of range, or an unknown scaling.
    """

    headline = Metric("ratio", "maximise")

    def __init__(
        self,
        widths: Sequence[int] = (64, 128, 256, 512, 1024),
        pairs: int = 32,
        scaling: Scaling = "maximal",
        trials: int = 4,
    ) -> None:
        check_whole_numbers("widths", widths, 2)
        if not all(a < b for a, b in pairwise(widths)):
            raise ValueError(f"tasks.widths is {list(widths)}, expected rising numbers")
        if pairs < 2 or trials < 1:
            raise ValueError(
                f"pairs={pairs} and trials={trials}: give at least 2 pairs and 1 trial"
            )
        if scaling not in get_args(Scaling):
            raise ValueError(f"scaling={scaling} is unknown: give maximal or tangent")
        self.widths, self.pairs = list(widths), pairs
        self.scaling, self.trials = scaling, trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the draws of the smallest width, of seed 0."""
        hashes = {}
        for split in get_args(Split):
            digest = hashlib.sha256()
            for drawn in self.draw(self.widths[0], split, 0):
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def draw(self, width: int, split: Split, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """W₀ (trials, d, d), u (trials, N, d) and v (trials, N, d), float32."""
        # By width: a list with more widths leaves the draws of the others as they were.
        generator = generator_of("feature_learning", split, seed, width)
        shape = (self.trials, self.pairs, width)
        start = torch.randn(self.trials, width, width, generator=generator) / math.sqrt(width)
        inputs = torch.randn(shape, generator=generator) / math.sqrt(width)
        outputs = torch.randn(shape, generator=generator)
        return start, inputs, outputs / math.sqrt(width) if self.maximal else outputs

    @property
    def maximal(self) -> bool:
        """Whether updates are maximal."""
        return self.scaling == "maximal"

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """For each width the metrics ``start/d=…`` and ``update/d=…``, the mean norms of W₀ u and
        ΔW u, and ``alignment/d=…``, the mean cosine of ΔW u_j and v_j; ``arrays`` of these names
        hold the mean of each trial. ``ratio`` is update over start at the largest width."""
        evaluation = Evaluation({})
        for done, width in enumerate(self.widths):
            report(f"d = {width}", done, len(self.widths))
            start, inputs, outputs = (x.to(device) for x in self.draw(width, split, seed))
            features = inputs @ start.mT  # (trials, N, d), W₀ u of each input
            logits = features @ outputs.mT
            # 1{k = j} − p̂(k | j), a row for each input j, as each input is a class of its own.
            errors = torch.eye(self.pairs, device=device) - logits.softmax(-1)
            rate = 1.0 if self.maximal else 1.0 / width  # η / N
            memory = cast(Memory, build(width, width, seed=seed))
            with torch.no_grad():
                memory.write(inputs, rate * errors @ outputs)
                moved = memory.read(inputs).values
            numbers = {
                "start": features.norm(dim=-1),
                "update": moved.norm(dim=-1),
                "alignment": cosine_similarity(moved, outputs, dim=-1),
            }
            for name, values in numbers.items():
                evaluation.arrays[f"{name}/d={width}"] = values.mean(1).tolist()
                evaluation.metrics[f"{name}/d={width}"] = values.mean().item()
        report("measured", len(self.widths), len(self.widths))
        for name in ("start", "update", "alignment"):
            means = [evaluation.metrics[f"{name}/d={width}"] for width in self.widths]
            evaluation.curves[name] = {"x": [float(d) for d in self.widths], "y": means}
        last = f"d={self.widths[-1]}"
        evaluation.metrics["ratio"] = (
            evaluation.metrics[f"update/{last}"] / evaluation.metrics[f"start/{last}"]
        )
        return evaluation
