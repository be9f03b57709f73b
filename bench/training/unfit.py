"""What ends a run because of its model: a row *failed* with this sentence, and no number."""

from core.errors import RUN_FAILED, UserError


class UnfitModel(Exception):
    """The model breaks the contract of ``models/specification.py``; says how."""


class RefusedModel(UnfitModel, UserError):
    """The same for whoever asked from Python, where no record takes the sentence."""

    def __init__(self, sentence: str) -> None:
        UserError.__init__(self, sentence, RUN_FAILED)
