"""Generative replay: a memory in weights that trains again on pairs of its own making.

README "Titans: Learning to memorise at test time" (github.com/suyash144/titans), testing
forgetting; Shin et al. 2017, Continual learning with deep generative replay (arXiv 1705.08690);
that the network itself names the values: Robins 1995, Catastrophic forgetting, rehearsal and
pseudorehearsal.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.memories.interface import bytes_of
from models.memories.stored_in_weights import StoredInWeights
from models.memories.trained import distinct


class GenerativeReplay(StoredInWeights):
    """The perceptron of the README, which keeps none of its pairs.

    Before each ``write`` it makes up keys, uniformly in the box of all keys it has seen, and
    answers them by its present weights; it then trains on these pairs and the new ones. For random
    numbers of tokens such a generator is exact. With classes, the answer is the nearest stored
    value.

    Args:
        key_size, value_size: widths of keys and values.
        dreams: pairs made up for each pair that was written by earlier calls; 0: none.
        others: as ``StoredInWeights``.

    Raises:
        ValueError: a setting outside its range.
    """

    _box: tuple[Tensor, Tensor] | None
    _written: int

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        dreams: float = 1.0,
        hidden: int = 128,
        loss: str = "classes",
        lr: float = 0.5,
        steps: int = 200,
        batch_size: int = 64,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        clip: float | None = 1.0,
        tolerance: float = 1e-5,
        check_every: int = 5,
        stop_at: float = 1.0,
        patience: int | None = None,
        vocabulary: int | None = None,
        embedding_size: int = 8,
    ) -> None:
        if not 0 <= dreams < math.inf:
            raise ValueError(f"dreams={dreams} counts pairs made up for each: give 0 or more")
        super().__init__(
            key_size,
            value_size,
            hidden=hidden,
            loss=loss,
            lr=lr,
            steps=steps,
            batch_size=batch_size,
            momentum=momentum,
            weight_decay=weight_decay,
            clip=clip,
            tolerance=tolerance,
            check_every=check_every,
            stop_at=stop_at,
            patience=patience,
            replay=0.0,
            vocabulary=vocabulary,
            embedding_size=embedding_size,
        )
        self.dreams = dreams

    def size_in_bytes(self) -> int:
        """As ``StoredInWeights``, and the box."""
        return super().size_in_bytes() + bytes_of(*(self._box or ()))

    def _write_flat(self, keys: Tensor, values: Tensor) -> None:
        old_classes = self._classes if self._weights else values[:, :0]
        made_up = self._made_up(keys, values)
        super()._write_flat(*(torch.cat(p, 1) for p in zip(made_up, (keys, values), strict=True)))
        # Stored values are those that were written, not what the weights made up.
        self._classes, self._present, _ = distinct(torch.cat((old_classes, values), 1))
        self._padded = not bool(self._present.all())
        box = keys.amin(1, keepdim=True), keys.amax(1, keepdim=True)
        if self._box is not None:
            box = torch.minimum(self._box[0], box[0]), torch.maximum(self._box[1], box[1])
        self._box, self._written = box, self._written + keys.shape[1]

    def _made_up(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self._box is None or not (count := round(self.dreams * self._written)):
            return keys[:, :0], values[:, :0]
        low, high = self._box
        # A function of how much was written, so that the same calls make up the same pairs.
        generator = torch.Generator().manual_seed((self._order + self._written) % 2**62)
        shares = torch.rand(len(keys), count, keys.shape[2], generator=generator).to(keys)
        if self.vocabulary is None:
            stems = low + shares * (high - low)
        else:  # whole numbers, the largest one included
            # high − low + 1 whole numbers; the clamp is for a share that float32 rounds up to 1.
            stems = low + (shares * (high - low + 1)).floor().clamp(max=high - low)
        with torch.no_grad():
            answers = self.outputs(self._weights, stems)
            if not self.squared:
                answers = self.stored_values(self.logits(answers).argmax(-1))
        return stems, answers.nan_to_num()  # weights that are lost stay lost

    def _reset(self) -> None:
        super()._reset()
        self._box = None
        self._written = 0
