"""Decay over spans of positions: what is left of a write when a later position reads it.

With c_i = g_0 + … + g_i inside a chunk, a write of position j reaches position i with the factor
exp(c_i − c_j), by channel or for a whole head. It is never computed as exp(c_i) exp(−c_j), whose
second factor overflows. The differences for a head are a small matrix. For channels they would be a
matrix for each channel, so spans are cut in two, as by Yang et al. (2024, arXiv 2312.06635, section
4.3), but again and again: from j in the left half of a block to i in its right half,

    exp(c_i − c_j) = exp(c_i − r) exp(r − c_j),  r = c at the end of the left half,

both at most 1; blocks of 2, 4, 8 … positions up to the chunk have every pair once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Reader(NamedTuple):
    """Vectors (..., chunk, width) that read the memory at their own positions.

    Attributes:
        before: as the position found it, undecayed and without its write; else as it left it.
    """

    vectors: Tensor
    before: bool = False


class Decay(ABC):
    """Decays inside chunks.

    Args:
        log_decays: g, (..., chunk, width), or (..., chunk, 1) for all channels.
    """

    def __init__(self, log_decays: Tensor) -> None:
        self.log_decays = log_decays
        self.sums = log_decays.cumsum(-2)

    @abstractmethod
    def scores(self, readers: Sequence[Reader], writers: Sequence[Tensor]) -> list[list[Tensor]]:
        """For each reader and each writer (..., chunk, width) the products of i with j <= i,
        decayed from j to i, or with j < i for one that reads before: (..., chunk, chunk)."""

    def from_the_start(self, reader: Reader) -> Tensor:
        """Vectors that read the memory as the chunk found it."""
        return reader.vectors * self._reach(reader.before).exp()

    def to_the_end(self, writers: Tensor) -> Tensor:
        """What is left of vectors (..., chunk, width) at the end of the chunk."""
        return writers * (self.sums[..., -1:, :] - self.sums).exp()

    @property
    def whole(self) -> Tensor:
        """Factors of the rows of the memory over the chunk, (..., width or 1, 1)."""
        return self.sums[..., -1:, :].mT.exp()

    def _reach(self, before: bool) -> Tensor:
        return self.sums - self.log_decays if before else self.sums


class HeadDecay(Decay):
    """One number for all channels, (..., chunk, 1)."""

    def scores(self, readers: Sequence[Reader], writers: Sequence[Tensor]) -> list[list[Tensor]]:
        """A product of vectors times a matrix of decays."""
        weights = {before: self._weights(before) for before in {r.before for r in readers}}
        return [[(r.vectors @ w.mT) * weights[r.before] for w in writers] for r in readers]

    def _weights(self, before: bool) -> Tensor:
        """exp(c_i − c_j) where i reads j, 0 elsewhere."""
        spans = self._reach(before) - self.sums.mT
        chunk = spans.shape[-1]
        unread = torch.ones(chunk, chunk, dtype=torch.bool, device=spans.device)
        unread = unread.triu(0 if before else 1)
        # Before the exponential: after it, infinity times 0 would be the gradient.
        return spans.masked_fill(unread, -math.inf).exp()


class ChannelDecay(Decay):
    """Numbers of each channel, (..., chunk, width), for chunks of a power of two."""

    def scores(self, readers: Sequence[Reader], writers: Sequence[Tensor]) -> list[list[Tensor]]:
        """Blocks of one position, then pairs of blocks, with the products between their halves."""
        vectors = torch.broadcast_tensors(*(r.vectors for r in readers), *writers)
        readers = [Reader(x, r.before) for x, r in zip(vectors, readers, strict=False)]
        writers = vectors[len(readers) :]
        reaches = {before: self._reach(before) for before in {r.before for r in readers}}
        # (..., blocks, readers, positions in a block, writers, positions in a block)
        diagonal = [[_own_position(reader, writer) for writer in writers] for reader in readers]
        blocks = torch.stack([torch.stack(row, -1) for row in diagonal], -2)[..., None, :, None]
        size = 1
        while size < self.sums.shape[-2]:
            left_sums, _ = _halves(self.sums, size)
            middle = left_sums[..., -1:, :]
            # exp(r − c_j), from each writer to the middle of its block.
            arrived = (middle - left_sums).exp()
            # exp(c_i − r), from the middle to each reader.
            reach = {before: (_halves(x, size)[1] - middle).exp() for before, x in reaches.items()}
            rows = torch.cat([_halves(r.vectors, size)[1] * reach[r.before] for r in readers], -2)
            columns = torch.cat([_halves(w, size)[0] * arrived for w in writers], -2)
            # (…, blocks, readers, size, writers, size): all readers with all writers by one
            # product.
            across = (rows @ columns.mT).unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
            left, right = blocks.unflatten(-5, (-1, 2)).unbind(-5)
            # No position of the left half reads one of the right half.
            upper = torch.cat((left, torch.zeros_like(left)), -1)
            blocks = torch.cat((upper, torch.cat((across, right), -1)), -3)
            size *= 2
        blocks = blocks.squeeze(-5)
        return [
            [blocks[..., row, :, column, :] for column in range(len(writers))]
            for row in range(len(readers))
        ]


def _own_position(reader: Reader, writer: Tensor) -> Tensor:
    """Products of each position with itself, (..., chunk)."""
    if reader.before:
        return torch.zeros_like(writer[..., 0])
    return (reader.vectors * writer).sum(-1)


def _halves(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(..., chunk, width) -> left and right halves of blocks of 2·size positions, each (...,
    blocks, size, width)."""
    left, right = x.unflatten(-2, (-1, 2, size)).unbind(-3)
    return left, right
