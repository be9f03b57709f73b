"""Maps of tokens to keys and values of a memory, trained by the memory's own loss or by its use.

README "Titans: Learning to memorise at test time" (github.com/suyash144/titans), next steps: with
nothing to prevent it, training might make the two transformations identical, so that the memory
collapses to an identity mapping with perfect loss; in transformers, whose maps are trained by the
loss of the model, this is no issue. The README has no experiment; this one is of this project.
"""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement
from tasks.refusals import check_number
from tasks.seeds import generator_of

Objective = Literal["inner", "outer", "none"]
SHARPNESS = 10.0  # of cosines as logits
REGRESSED = 4096  # tokens over which values are regressed on keys


class Maps(NamedTuple):
    """W_K and W_V, each (size, 2 size)."""

    key: Tensor
    value: Tensor

    def keys(self, tokens: Tensor) -> Tensor:
        """Unit vectors (…, size) of tokens (…, 2 size)."""
        # Of length 1: a map to zero, which every memory answers, is no way out.
        return functional.normalize(tokens @ self.key.T, dim=-1)

    def values(self, tokens: Tensor) -> Tensor:
        """As ``keys``."""
        return functional.normalize(tokens @ self.value.T, dim=-1)


class LearnedMaps(Measurement):
    """What trained maps of tokens to keys and values leave of a memory.

    A token is a stem and an answer beside each other, each of ``size`` normal numbers; key and
    value are the unit vectors of W_K x and W_V x, of half the numbers of a token. A memory is
    written ``pairs`` tokens. Its inner loss is the squared error about the values of as many tokens
    that follow, the surprise by which memories at test time learn. Its use is another thing: asked
    by a stem, with zeros for the answer, a linear map of what it gives should be the answer of the
    token that had this stem.

    * objective=inner trains both maps by the inner loss alone;
    * outer trains them, and a map of values to answers, by the cross-entropy of the answers that
      were written, given stems;
    * none leaves them as drawn.

    Example: with W_K = W_V the memory that answers its key has no inner loss, whatever was written,
    and knows no answer; with W_K = (1 0) and W_V = (0 1) keys are stems and values answers: the
    inner loss is that of random values, and every stem finds its answer.

    Args:
        size: of stems, answers, keys and values.
        pairs: tokens that are written.
        objective: by what maps are trained.
        steps: of Adam.
        batch: memories in a step.
        lr: its step size.
        trials: memories that are tested.

    Raises:
        ValueError: a number out of range, or an unknown objective.
    """

    headline = Metric("recall", "maximise")

    def __init__(
        self,
        size: int = 16,
        pairs: int = 24,
        objective: Objective = "outer",
        steps: int = 500,
        batch: int = 32,
        lr: float = 1e-2,
        trials: int = 64,
    ) -> None:
        if objective not in get_args(Objective):
            raise ValueError(f"objective={objective} is unknown: give inner, outer or none")
        for name, number in (
            ("size", size),
            ("pairs", pairs),
            ("steps", steps),
            ("batch", batch),
            ("trials", trials),
        ):
            if number < 1:
                raise ValueError(f"{name}={number} is too small: give at least 1")
        check_number("lr", lr, 0)
        self.size, self.pairs, self.objective = size, pairs, objective
        self.steps, self.batch, self.lr, self.trials = steps, batch, lr, trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the tokens that maps of seed 0 are tested on."""
        hashes = {}
        for split in get_args(Split):
            tokens = self._tokens(self.trials, generator_of("learned_maps", split, 0, "tested"))
            hashes[split] = hashlib.sha256(tokens.numpy().tobytes()).hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """``inner_loss``; ``recall``, the share of stems that find their answer among those that
        were written, by the linear map that gives answers best from values of other tokens;
        ``collapse``, the share of the variance of values that a linear map of their keys explains.
        All are of tokens that were not trained on.

        Raises:
            Diverged: maps that are no numbers.
        """
        generator = generator_of("learned_maps", split, seed)
        shape = (self.size, 2 * self.size)
        drawn = [torch.randn(shape, generator=generator) / shape[1] ** 0.5 for _ in range(2)]
        maps = Maps(*(nn.Parameter(matrix.to(device)) for matrix in drawn))
        evaluation = Evaluation({})
        if self.objective != "none":
            evaluation.curves["loss"] = self._train(build, maps, generator, seed, device, report)
        if not all(bool(matrix.isfinite().all()) for matrix in maps):
            raise Diverged("the maps are no numbers")
        # A generator of their own: tested tokens are the same however long was trained.
        tested = self._tokens(self.trials, generator_of("learned_maps", split, seed, "tested"))
        tokens = tested.to(device)
        with torch.no_grad():
            memory, written, following = self._written(build, maps, tokens, seed)
            evaluation.metrics["inner_loss"] = self._inner(memory, maps, following).item()
            fresh = torch.randn(
                REGRESSED,
                2 * self.size,
                generator=generator_of("learned_maps", split, seed, "regressed"),
            ).to(device)
            # Fitted on tokens that no memory was written: it cannot know the answers by heart.
            read_out = torch.linalg.lstsq(maps.values(fresh), fresh[:, self.size :]).solution
            cosines = self._cosines(memory, maps, written, read_out)
            right = cosines.argmax(-1) == self._own(device)
            evaluation.metrics["recall"] = right.double().mean().item()
            evaluation.arrays["recall"] = right.double().mean(-1).tolist()
            evaluation.metrics["collapse"] = explained(maps.keys(fresh), maps.values(fresh))
        return evaluation

    def _train(
        self,
        build: Build,
        maps: Maps,
        generator: torch.Generator,
        seed: int,
        device: torch.device | str,
        report: Report,
    ) -> dict[str, list[float]]:
        """Adam on one loss; the curve of the loss, ten points."""
        read_out = nn.Parameter(torch.eye(self.size, device=device))
        optimizer = torch.optim.Adam([*maps, read_out], lr=self.lr)
        every = max(1, self.steps // 10)
        curve: dict[str, list[float]] = {"x": [], "y": []}
        for step in range(self.steps):
            tokens = self._tokens(self.batch, generator).to(device)
            memory, written, following = self._written(build, maps, tokens, seed)
            if self.objective == "inner":
                loss = self._inner(memory, maps, following)
            else:
                logits = SHARPNESS * self._cosines(memory, maps, written, read_out)
                target = self._own(device).expand(self.batch, -1)
                loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                report("training", step, self.steps)
                curve["x"].append(float(step))
                curve["y"].append(loss.item())
        return curve

    def _tokens(self, memories: int, generator: torch.Generator) -> Tensor:
        """(memories, 2 pairs, 2 size): those that are written, then those that follow."""
        return torch.randn(memories, 2 * self.pairs, 2 * self.size, generator=generator)

    def _own(self, device: torch.device | str) -> Tensor:
        """Which of the written answers is each stem's own, int64 (pairs,)."""
        return torch.arange(self.pairs, device=device)

    def _written(
        self, build: Build, maps: Maps, tokens: Tensor, seed: int
    ) -> tuple[Memory, Tensor, Tensor]:
        """The memory, what was written into it, and what follows."""
        written, following = tokens.split(self.pairs, 1)
        memory = cast(Memory, build(self.size, self.size, seed=seed))
        # With its graph: a loss of what is read later trains the maps by which was written.
        memory.write(maps.keys(written), maps.values(written))
        return memory, written, following

    def _inner(self, memory: Memory, maps: Maps, following: Tensor) -> Tensor:
        """Mean squared length of the error about values of length 1."""
        answers = memory.read(maps.keys(following)).values
        return (answers - maps.values(following)).square().sum(-1).mean()

    def _cosines(self, memory: Memory, maps: Maps, written: Tensor, read_out: Tensor) -> Tensor:
        """Cosines of what each stem gives and each answer that was written, (memories, pairs,
        pairs)."""
        # A stem without its answer: zeros, which no token has there.
        stems = written.clone()
        stems[..., self.size :] = 0.0
        given = functional.normalize(memory.read(maps.keys(stems)).values @ read_out, dim=-1)
        return given @ functional.normalize(written[..., self.size :], dim=-1).mT


def explained(keys: Tensor, values: Tensor) -> float:
    """The share of the variance of values (tokens, size) that a linear map of keys explains."""
    solution = torch.linalg.lstsq(keys, values).solution
    unexplained = (values - keys @ solution).square().sum() / values.square().sum()
    return 1.0 - unexplained.item()
