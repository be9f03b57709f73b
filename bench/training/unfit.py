"""What ends a run because of its model: a row *failed* with this sentence, and no number."""

from bench.config.questions import REFUSALS
from core.errors import RUN_FAILED, UserError

NAMED = 3  # of the parameters that a sentence is about


class UnfitModel(Exception):
    """The model breaks the contract of ``models/specification.py``; says how."""


def unfit(cause: str, **values: object) -> UnfitModel:
    """The refusal of a model by an examination.

    Args:
        cause: as :mod:`bench.config.questions` has it.
        values: what its sentence leaves open; ``mode``, ``state`` and ``others`` may be left out.
    """
    return UnfitModel(REFUSALS[cause].format(**{"mode": "", "state": "", "others": "", **values}))


def first_names(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


class RefusedModel(UnfitModel, UserError):
    """The same for whoever asked from Python, where no record takes the sentence."""

    def __init__(self, sentence: str) -> None:
        UserError.__init__(self, sentence, RUN_FAILED)
