"""Errors of an outer-product memory for many trials, samples and sizes at once.

W = Σ_z q(z) v_f(z) u_zᵀ is never formed. With the sums A_k = Σ_{f(z) = k} q(z) u_z, one for each
class, the scores v_yᵀ W u_z are u_z · R_y with R = V Vᵀ A: both passes over the N tokens cost
N · M · d, and memory is that of a few chunks of tokens: 0.5 GB at N = 10⁶ and d = 4096.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from tasks.scaling_laws.draws import Draws, Lengths, scaled

CHUNK = 2**24  # numbers held at once for a chunk of tokens, in each of a few tensors


class TrialBatch:
    """Some trials whose embeddings of every size are truncations of the same draw.

    Args:
        weights: size d -> q, (trials, samples, tokens), float, on the device that computes.
        group: which of several independent draws of a trial.
    """

    def __init__(
        self,
        draws: Draws,
        trials: range,
        group: int,
        weights: Mapping[int, Tensor],
        inputs: Lengths,
        outputs: Lengths,
    ) -> None:
        self.draws, self.trials, self.group = draws, trials, group
        self.weights, self.inputs, self.outputs = weights, inputs, outputs
        self.width = max(weights)
        widest = weights[self.width]
        self.samples, self.tokens = widest.shape[1:]
        self.dtype, self.device = widest.dtype, widest.device
        self.at_once = tokens_at_once(len(trials), self.width, self.samples * draws.classes)
        self._drawn: tuple[slice, Tensor] | None = None

    def errors(self) -> dict[int, Tensor]:
        """Size d -> Σ_z p(z) 1{argmax_y v_yᵀ W u_z ≠ f(z)}, float64 (trials, samples) on the
        processor. Between equal scores the choice is by lot: its expected error counts."""
        readers = self._readers()
        shape = (len(self.trials), self.samples)
        errors = {d: torch.zeros(shape, dtype=torch.float64) for d in self.weights}
        for tokens, vectors in self._token_vectors():
            classes = torch.arange(tokens.start, tokens.stop) % self.draws.classes
            masses = torch.from_numpy(self.draws.probabilities[tokens])
            for d, reader in readers.items():
                # (trials, tokens, samples · classes): one product for all n.
                scores = scaled(vectors[..., :d], self.inputs) @ reader.flatten(1, 2).mT
                scores = scores.unflatten(2, reader.shape[1:3])
                missed = _misses(scores, classes.to(self.device))
                errors[d] += torch.einsum("tzs,z->ts", missed.double().cpu(), masses)
        return errors

    def _readers(self) -> dict[int, Tensor]:
        """Size d -> R = V Vᵀ A, (trials, samples, classes, d)."""
        shape = (len(self.trials), self.samples * self.draws.classes)
        sums = {
            d: torch.zeros(*shape, d, dtype=self.dtype, device=self.device) for d in self.weights
        }
        last = max(_last_nonzero(q) for q in self.weights.values())
        # A_k of a chunk is a product of weighted one-hot rows with the vectors of its tokens.
        for tokens, vectors in self._token_vectors():
            # Tokens that no sample has seen weigh 0, and Zipf's rare ones stand last.
            if tokens.start > last:
                break
            ones = self._class_of(tokens)
            for d, q in self.weights.items():
                by_class = (q[:, :, None, tokens] * ones).flatten(1, 2)
                sums[d] += by_class @ scaled(vectors[..., :d], self.inputs)
        normal = self.draws.class_vectors(self.trials, self.group, self.width)
        vectors = normal.to(self.device, self.dtype)
        readers = {}
        for d, total in sums.items():
            v = scaled(vectors[..., :d], self.outputs)
            # (classes, classes): the Gram matrix of the classes' vectors.
            gram = (v @ v.mT)[:, None]
            readers[d] = gram @ total.unflatten(1, (self.samples, self.draws.classes))
        return readers

    def _class_of(self, tokens: slice) -> Tensor:
        """One-hot, (classes, tokens)."""
        classes = torch.arange(tokens.start, tokens.stop) % self.draws.classes
        return (classes == torch.arange(self.draws.classes)[:, None]).to(self.device, self.dtype)

    def _token_vectors(self) -> Iterator[tuple[slice, Tensor]]:
        """Chunks of tokens; what fits in one chunk is drawn once, the rest for each pass."""
        if self._drawn is not None:
            yield self._drawn
            return
        drawn = self.draws.token_vectors(self.trials, self.group, self.width, self.at_once)
        for tokens, normal in drawn:
            chunk = tokens, normal.to(self.device, self.dtype)
            # One chunk holds all: the second pass reads it instead of drawing again.
            if self.tokens <= self.at_once:
                self._drawn = chunk
            yield chunk


def tokens_at_once(trials: int, width: int, scores: int) -> int:
    """Tokens in a chunk, such that vectors and scores of ``trials`` trials stay small."""
    return max(1, CHUNK // (trials * (width + scores)))


def trials_at_once(tokens: int, width: int, scores: int) -> int:
    """Trials in a batch: as many as fit in one chunk with all their tokens, at least one."""
    return max(1, CHUNK // (tokens * (width + scores)))


def _misses(scores: Tensor, classes: Tensor) -> Tensor:
    """Expected error of each token: scores (trials, tokens, samples, classes) -> all but the
    last axis."""
    best = scores.amax(-1)
    places = classes[None, :, None, None].expand(*scores.shape[:-1], 1)
    right = scores.gather(-1, places)[..., 0] == best
    return 1 - right / (scores == best[..., None]).sum(-1)


def _last_nonzero(weights: Tensor) -> int:
    """The last token that any sample gives a weight to; -1 where there is none."""
    used = (weights != 0).flatten(0, -2).any(0).nonzero()
    return int(used[-1]) if len(used) else -1
