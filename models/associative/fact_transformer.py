"""The one-layer transformer that recalls facts: attention at the last token, then an MLP.

Nichani, Lee and Bietti 2025, Understanding factual recall in transformers via associative memories
(arXiv 2412.06538), factual recall task.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FactTransformer(nn.Module):
    """Answers of sequences that end in the same token, from how often each token is in them.

    The only query is the last token, and there are no positions: a sequence is the multiset of its
    tokens. With embeddings e_v, scores s_vh = e_v K_h · e_last Q_h / √d_h and counts n_v, head h
    answers Σ_v n_v exp(s_vh) e_v V_h / Σ_v n_v exp(s_vh), which is softmax attention over all
    positions. The heads times O are x, without a residual path from the input; the answer is
    (x + W relu(U x + b)) times the unembedding.

    Embedding and unembedding stay as drawn, from N(0, 1/width). Q, K and V start from N(0, 1/d_h)
    and O from N(0, 1/width); U, b and W as PyTorch's linear layers.

    Args:
        vocabulary: tokens.
        answers: classes, a space of their own.
        width: d.
        head_size: d_h.
        heads: H, at least 1.
        mlp_width: m; 0 leaves the MLP out.

    Raises:
        ValueError: a size below 1, or a negative width of the MLP.
    """

    embedding: Tensor  # (vocabulary, width)
    unembedding: Tensor  # (width, answers)

    def __init__(
        self, vocabulary: int, answers: int, width: int, head_size: int, heads: int, mlp_width: int
    ) -> None:
        super().__init__()
        if min(vocabulary, answers, width, head_size, heads) < 1 or mlp_width < 0:
            raise ValueError(
                "a transformer of facts needs at least one token, answer, dimension and head, got "
                f"{vocabulary}, {answers}, {width}, {head_size} and {heads}, and an MLP of width "
                f"{mlp_width}"
            )

        def normal(*shape: int, variance: float) -> Tensor:
            return torch.randn(*shape) * variance**0.5

        def uniform(*shape: int, inputs: int) -> nn.Parameter:
            drawn = torch.rand(*shape) * 2 - 1  # m = 0 has an empty matrix
            return nn.Parameter(drawn / max(inputs, 1) ** 0.5)

        self.register_buffer("embedding", normal(vocabulary, width, variance=1 / width))
        self.register_buffer("unembedding", normal(width, answers, variance=1 / width))
        self.query, self.key, self.value = (
            nn.Parameter(normal(heads, width, head_size, variance=1 / head_size)) for _ in range(3)
        )
        self.output = nn.Parameter(normal(heads, head_size, width, variance=1 / width))
        self.first = uniform(width, mlp_width, inputs=width)
        self.bias = uniform(mlp_width, inputs=width)
        self.second = uniform(mlp_width, width, inputs=mlp_width)

    def forward(self, counts: Tensor, last: int) -> Tensor:
        """Logits of the answers.

        Args:
            counts: (batch, vocabulary), float: how often each token is in each sequence.
            last: the token at the end of every sequence; it is counted too.

        Returns:
            (batch, answers).
        """
        scale = self.query.shape[-1] ** -0.5
        keys = torch.einsum("vd,hde->hve", self.embedding, self.key)
        query = torch.einsum("d,hde->he", self.embedding[last], self.query)
        scores = torch.einsum("hve,he->vh", keys, query) * scale
        # (vocabulary, heads); the maximum cancels in the quotient.
        weights = (scores - scores.amax(0)).exp()
        values = torch.einsum("vd,hde->vhe", self.embedding, self.value)
        numerator = torch.tensordot(counts, weights[..., None] * values, 1)  # (batch, heads, d_h)
        # A token that outweighs all others by e^80 may be absent: nothing is then attended to.
        denominator = (counts @ weights).clamp_min(torch.finfo(counts.dtype).tiny)
        x = torch.einsum("bhe,hed->bd", numerator / denominator[..., None], self.output)
        x = x + (x @ self.first + self.bias).relu() @ self.second
        return x @ self.unembedding
