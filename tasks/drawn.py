"""What ``draw`` of a generated task gives, looked at before anything is trained on it.

A draw is a stranger's code. numpy makes an array of nearly anything, so 0.7 would become class 0,
and a batch with its axes the other way round would be trained on. Each fault is one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.interface import IGNORED

Array = NDArray[Any]
INPUTS, TARGETS = "inputs", "targets"


@dataclass(frozen=True)
class Drawing:
    """What one draw has to give.

    Attributes:
        name: of the class that draws.
        count: sequences that it was asked for.
        length: the most positions of a sequence.
        vocabulary, channels: of the inputs; one of them is None.
        classes: among how many integers the targets are; None where they are real.
        outputs: channels of real targets.
    """

    name: str
    count: int
    length: int
    vocabulary: int | None
    channels: int | None
    classes: int | None
    outputs: int | None

    def tensors(self, drawn: object) -> tuple[Tensor, Tensor, Tensor | None]:
        """The inputs, the targets and the mask of a draw, the last one bool (count, time) or None.

        Raises:
            ValueError: what was drawn is of another kind, shape or type, or holds a number that the
                task does not have.
        """
        if not isinstance(drawn, tuple | list) or len(drawn) not in (2, 3):
            size = f" of {len(drawn)}" if isinstance(drawn, tuple | list) else ""
            self._refuse(
                f"a {type(drawn).__name__}{size}",
                "return inputs, targets, or inputs, targets, mask",
            )
        inputs = self._array(INPUTS, drawn[0])
        targets = self._array(TARGETS, drawn[1])
        time = inputs.shape[1] if inputs.ndim > 1 else 0
        # Draws may be shorter than the longest sequence, and of another length each time.
        has_time = 1 <= time <= self.length
        positions = f"time from 1 to {self.length}"
        by_channel = "" if self.channels is None else f", {self.channels}"
        if inputs.shape != self._shape(time, self.channels) or not has_time:
            wanted = f"({self.count}, time{by_channel}), with {positions}"
            self._refuse_shape(INPUTS, inputs, wanted, self.channels)
        shape_of_targets = self._shape(time, self.outputs)
        if targets.shape != shape_of_targets:
            no_target = f", with {IGNORED} where nothing is asked" if self.outputs is None else ""
            self._refuse_shape(TARGETS, targets, f"{shape_of_targets}{no_target}", self.outputs)
        checked_inputs = (
            self._real(INPUTS, inputs)
            if self.vocabulary is None
            else self._whole(INPUTS, inputs, self.vocabulary)
        )
        checked_targets = (
            self._real(TARGETS, targets)
            if self.classes is None
            else self._whole(TARGETS, targets, self.classes)
        )
        mask = None if len(drawn) == 2 else self._mask(drawn[2], (self.count, time))
        return checked_inputs, checked_targets, mask

    def _shape(self, time: int, channels: int | None) -> tuple[int, ...]:
        return (self.count, time) if channels is None else (self.count, time, channels)

    def _array(self, what: str, values: object) -> Array:
        try:
            return np.asarray(values)
        except (ValueError, TypeError, RuntimeError) as error:
            self._refuse(
                f"{what} that numpy makes no array of ({error})",
                "give arrays, in which all sequences of one draw are of one length",
            )

    def _whole(self, what: str, values: Array, size: int) -> Tensor:
        """Tokens or classes, int64."""
        allowed = f"integers from 0 to {size - 1}"
        allowed += f", or {IGNORED} where nothing is asked" if what == TARGETS else ""
        if values.dtype.kind not in "iubf":
            self._refuse(f"{what} of type {values.dtype}", f"give {allowed}")
        # Whole numbers of a real type lose nothing; any others would be rounded towards zero.
        wrong = ~((values >= 0) & (values < size) & (values == np.floor(values)))
        if what == TARGETS:
            wrong &= values != IGNORED
        if wrong.any():
            self._refuse(f"{values[wrong][0]} among its {what}", f"give {allowed}")
        return torch.from_numpy(np.array(values, dtype=np.int64))

    def _real(self, what: str, values: Array) -> Tensor:
        """Channels, float32."""
        if values.dtype.kind not in "iubf":
            self._refuse(f"{what} of type {values.dtype}", "give real numbers")
        with np.errstate(over="ignore"):  # what is too large is infinite, and refused
            numbers = np.array(values, dtype=np.float32)
        finite = np.isfinite(numbers)
        if not finite.all():
            value = values[~finite][0]
            unasked = ", also where the mask is False" if what == TARGETS else ""
            self._refuse(f"{value} among its {what}", f"give numbers that float32 has{unasked}")
        return torch.from_numpy(numbers)

    def _mask(self, values: object, shape: tuple[int, int]) -> Tensor:
        mask = self._array("a mask", values)
        if mask.dtype != np.bool_ or mask.shape != shape:
            self._refuse(
                f"a mask of shape {mask.shape} and type {mask.dtype}",
                f"give bool (count, time) = {shape}",
            )
        # A copy: PyTorch warns of arrays that cannot be written, as broadcast ones.
        return torch.from_numpy(np.array(mask))

    def _refuse_shape(self, what: str, values: Array, wanted: str, channels: int | None) -> None:
        shape = values.shape
        # (time, count, …) is a usual slip, as of recurrent layers.
        turned = shape[1::-1] + shape[2:]
        time = turned[1] if len(turned) > 1 else 0
        fits_turned = turned == self._shape(time, channels) and 1 <= time <= self.length
        hint = "; these have time before the sequences" if fits_turned else ""
        self._refuse(f"{what} of shape {shape} for count={self.count}", f"give {wanted}{hint}")

    def _refuse(self, what: str, advice: str) -> NoReturn:
        raise ValueError(f"draw of {self.name} gave {what}: {advice}")
