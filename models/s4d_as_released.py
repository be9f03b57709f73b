"""S4D as the RegBench study released it: no B, and initial kernels about 2.5 times smaller.

The study calls it S4. Its code (seq_icl, commit 9b9223d; src/models/sequence/ssm/s4d.py lines 218
and 236) draws one B for all channels, scales it so that the state of a process of unit variance
has unit variance, and folds it into the initial C. So C starts smaller than that of
:class:`models.s4d.S4D`, where B = 1, and there is no B to learn.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.layers.residual import ResidualModel
from models.s4d import S4DMixer
from models.specification import SequenceSpecification


class S4DMixerAsReleased(S4DMixer):
    """:class:`models.s4d.S4DMixer` with C = C₀ ∘ B₀ at first and B = 1 for ever.

    C₀ and √ζ B₀ are complex standard normal, ζ = 2 Σ_n |(√ζ B₀)_n / A_n|²; Re A = −(½ + 1e-4).
    """

    def __init__(self, width: int, *, state: int = 64) -> None:
        super().__init__(width, state=state, initialisation="inverse")
        # B = 1 is no parameter here, as there was none to learn.
        del self.write
        pairs = state // 2
        with torch.no_grad():
            self.log_decay.fill_(math.log(0.5 + 1e-4))
            rates = torch.complex(-self.log_decay.exp(), self.frequencies)
            drawn = torch.view_as_complex(torch.randn(pairs, 2) * math.sqrt(0.5))
            # The 2 counts both members of a conjugate pair.
            write = drawn / (2 * (drawn / rates).abs().square().sum()).sqrt()
            self.read.copy_(torch.view_as_real(torch.view_as_complex(self.read) * write))

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """The dynamics are learnt slowly and without decay, as in the authors' code."""
        names = ("log_steps", "log_decay", "frequencies")
        return {name: {"weight_decay": 0.0, "maximum_lr": 1e-3} for name in names}

    def _discretise(self) -> tuple[Tensor, Tensor]:
        """Exponents Δ A and coefficients 2 C (exp(Δ A) − 1)/A, complex (width, N/2)."""
        rates = torch.complex(-self.log_decay.exp(), self.frequencies)
        exponents = self.log_steps.exp().unsqueeze(-1) * rates
        return exponents, 2 * torch.view_as_complex(self.read) * (torch.exp(exponents) - 1) / rates


class S4DAsReleased(ResidualModel):
    """S4D mixers without B in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: real size N of the state of each channel, even.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [S4DMixerAsReleased(width, state=state) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
