"""The states of a few positions at once, in buffers that are used again: the inner part of
``selective_scan.py``, where everything is (time, batch, groups, state, channels)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Workspace:
    """Buffers for the expanded states of one segment, which serve all segments: fresh ones would
    cost more than the arithmetic. So would views taken for each segment anew.

    Args:
        like: of the type and the device that are wanted.
        shape: of decays and states, (time, batch, groups, state, channels).
        chunks: side by side.
    """

    def __init__(self, like: Tensor, shape: Sequence[int], chunks: int) -> None:
        self.decays, self.states = like.new_empty(shape), like.new_empty(shape)
        self.matrices = self.states.flatten(0, 2)  # of each position
        self.first_decay, self.first_state = self.decays[0], self.states[0]
        self.last_state = self.states[-1]
        # By position in a chunk, of all chunks: (chunks, …).
        self.decay_at = self.decays.unflatten(0, (chunks, -1)).unbind(1)
        self.state_at = self.states.unflatten(0, (chunks, -1)).unbind(1)
        self.chunks = chunks

    def expand(
        self, start: Tensor, delta: Tensor, steps: Tensor, write: Tensor, rates: Tensor
    ) -> None:
        """Fill decays exp(ΔA) and states of a segment from the state before it.

        Args:
            delta, steps: Δ and Δ x, with an axis of states.
            write: B, with an axis of channels.
        """
        torch.mul(delta, rates, out=self.decays).exp_()
        torch.mul(write, steps, out=self.states)
        self.first_state.addcmul_(self.first_decay, start)
        if self.chunks > 1:
            self._hand_on()
        # With what they were handed in their first position, all chunks go on side by side.
        previous, *others = self.state_at
        for state, decay in zip(others, self.decay_at[1:], strict=True):
            state.addcmul_(decay, previous)
            previous = state

    def _hand_on(self) -> None:
        """To the first state of each chunk what the chunks before it hand on."""
        carried, faded = self.state_at[0][:-1], self.decay_at[0][:-1]
        for state, decay in zip(self.state_at[1:], self.decay_at[1:], strict=True):
            carried = torch.addcmul(state[:-1], decay[:-1], carried)
            faded = faded * decay[:-1]
        # With one position in a chunk this is still a view of the states.
        carried = carried.clone()
        for index in range(1, len(carried)):
            carried[index].addcmul_(faded[index], carried[index - 1])
        self.state_at[0][1:].addcmul_(self.decay_at[0][1:], carried)


class WayBack:
    """dLoss/dh_t = what the output of t gives + exp(Δ_{t+1} A) dLoss/dh_{t+1} in ``adjoints``;
    every decay becomes its product with dLoss/dh of its own position.

    Args:
        decays: of a segment, the buffer of a :class:`Workspace`.
        chunks: side by side.
    """

    def __init__(self, decays: Tensor, chunks: int) -> None:
        self.adjoints = torch.empty_like(decays)
        self.matrices = self.adjoints.flatten(0, 2)
        # From the last position in a chunk to its first.
        self.decay_at = decays.unflatten(0, (chunks, -1)).unbind(1)[::-1]
        self.adjoint_at = self.adjoints.unflatten(0, (chunks, -1)).unbind(1)[::-1]
        self.last_adjoint, self.chunks = self.adjoints[-1:], chunks
        # What the last position of a segment gets from the segment after it.
        self.arriving = torch.zeros_like(self.last_adjoint)

    def solve(self, read: Tensor, gradient: Tensor) -> None:
        """From the last position of a segment to its first.

        Args:
            read, gradient: C and dLoss/dy of the segment, whose product is what an output gives.
        """
        if self.chunks == 1:
            following = self.arriving
            by_time = (reversed(x.unbind(0)) for x in (read, gradient))
            for adjoint, decay, c, grad in zip(
                self.adjoint_at, self.decay_at, *by_time, strict=True
            ):
                torch.addcmul(following, c, grad, out=adjoint)
                following = decay.mul_(adjoint)
            self.arriving.copy_(following)
            return
        torch.mul(read, gradient, out=self.adjoints)
        self.last_adjoint.add_(self.arriving)
        self._hand_on()
        following = self.adjoint_at[0]
        for adjoint, decay in zip(self.adjoint_at[1:], self.decay_at[:-1], strict=True):
            adjoint.add_(decay.mul_(following))
            following = adjoint
        self.arriving.copy_(self.decay_at[-1].mul_(following)[:1])

    def _hand_on(self) -> None:
        """To the last adjoint of each chunk what the chunks after it hand back."""
        # What leaves each chunk at its start if nothing comes in at its end, and by how much it
        # fades what does.
        carried, faded = self.adjoint_at[0][1:], self.decay_at[0][1:]
        for adjoint, decay, own in zip(
            self.adjoint_at[1:], self.decay_at[1:], self.decay_at[:-1], strict=True
        ):
            carried = torch.addcmul(adjoint[1:], own[1:], carried)
            faded = faded * decay[1:]
        carried = carried * self.decay_at[-1][1:]
        for index in range(len(carried) - 2, -1, -1):
            carried[index].addcmul_(faded[index], carried[index + 1])
        self.adjoint_at[0][:-1].add_(carried)
