"""A model of somebody else, with attributes in the place of a card."""

from typing import Any

from torch import nn

from models.specification import SequenceSpecification

TOKENS = SequenceSpecification(maximum_length=8, vocabulary=5)
CHANNELS = SequenceSpecification(maximum_length=8, input_channels=2, output_channels=2)


class Guest(nn.Module):
    label = "A guest, labelled"
    sequences = "tokens"
    defaults = {"width": 24, "depth": 2}  # noqa: RUF012  # as a user writes it

    def __init__(self, specification: SequenceSpecification, **settings: Any) -> None:
        super().__init__()
