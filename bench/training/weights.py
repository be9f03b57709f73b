"""Files of weights: read where they are those of a record, and given to a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from bench.training.storage import with_second_names
from ground.errors import RUN_FAILED, UserError
from ground.files import open_regular


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], path: Path, *, edited: bool = False
) -> None:
    """Give a model what :func:`read_weights` has read at ``path``; names that share a tensor in
    the model, of which the file has one, get it together.

    Args:
        edited: whether the code of the model is not that which trained them.

    Raises:
        UserError: these are weights of another model.
    """
    try:
        model.load_state_dict(with_second_names(weights, model.state_dict()))
    except RuntimeError:
        if edited:
            raise UserError(
                f"the weights {path} are of other code than the model has now, and do not fit it: "
                "go back to the code that the record names by its hash, or train again with this",
                RUN_FAILED,
            ) from None
        raise UserError(
            f"the weights {path} do not fit the model of their record: delete the folder "
            f"{path.parent}, and the record if it is still there, then train again",
            RUN_FAILED,
        ) from None


def read_weights(path: Path, sha256: str | None) -> dict[str, Tensor]:
    """Weights of a record, if they are the ones that it names.

    Raises:
        UserError: the file is missing or is not the one that was saved.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise UserError(
            f"the weights {path} are missing: train again with the record's command "
            "(delete its record first), put the file back, or name the store that has it by store=",
            RUN_FAILED,
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"the weights {path} are not the ones that were trained (SHA-256 differs): delete the "
            f"folder {path.parent}, and the record if it is still there, then train again",
            RUN_FAILED,
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise UserError(f"the weights {path} are no safetensors ({error})", RUN_FAILED) from None
