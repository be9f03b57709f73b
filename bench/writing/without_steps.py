"""Models that have no ``step``, as those of others may: every new token reads the whole text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.errors import first_line


class WholeText(nn.Module):
    """The steps of a model that has none: its state is the text so far, (batch, time) tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.context_limit = getattr(model, "context_limit", None)

    def prefill(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, vocabulary) after tokens (batch, time), and the state after them.

        Raises:
            ValueError: the model does not take so long a text.
        """
        try:
            outputs: Tensor = self.model(inputs)
        except (IndexError, RuntimeError, ValueError, AssertionError) as error:
            cause = first_line(error)
            raise ValueError(
                f"the model stops at a text of {inputs.shape[1]} tokens ({cause}): give a shorter "
                "prompt, or a smaller new_tokens"
            ) from error
        return outputs[:, -1], inputs

    def step(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same for one more token, (batch,)."""
        token = inputs[:, None]
        return self.prefill(token if state is None else torch.cat([state, token], dim=1))


def with_steps(model: nn.Module) -> nn.Module:
    """The model itself, if it has steps; else the same by the whole text."""
    return model if hasattr(model, "step") else WholeText(model)
