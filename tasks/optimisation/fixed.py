"""A matrix memory between embeddings that a protocol gives."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from models.associative.embedded import EmbeddedMemory
from tasks.measurement import Build, Refused
from tasks.refusals import fitting_model

CHOOSE = (
    "this protocol is about one matrix between embeddings that stay as they are: choose "
    "models=matrix"
)


def matrix_memory(
    build: Build, embedding: Tensor, readout: Tensor, start: Tensor
) -> EmbeddedMemory:
    """A memory with these embeddings and this matrix, in their float type.

    Args:
        embedding: (trials, tokens, d).
        readout: (trials, d, classes).
        start: (d, d) or (trials, d, d).

    Raises:
        Refused: the configured model trains something else than one matrix.
    """
    trials, tokens, dimension = embedding.shape
    # What is drawn is overwritten below; only the shapes count.
    generators = [torch.Generator().manual_seed(0)] * trials
    sizes = (tokens, dimension, readout.shape[-1])
    model = fitting_model(build, *sizes, generators, choose=CHOOSE).to(embedding.dtype)
    if {name for name, _ in model.named_parameters()} != {"weight"}:
        raise Refused(CHOOSE)
    with torch.no_grad():
        for name, value in (("weight", start), ("embedding", embedding), ("readout", readout)):
            getattr(model, name).copy_(value)
    return cast(EmbeddedMemory, model)


def normal_rows(*shape: int, generator: torch.Generator) -> Tensor:
    """Float64 from N(0, 1/d), where d is the last axis."""
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return drawn / shape[-1] ** 0.5


def unit_rows(*shape: int, generator: torch.Generator) -> Tensor:
    """Random directions in float64, along the last axis."""
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return functional.normalize(drawn, dim=-1)
