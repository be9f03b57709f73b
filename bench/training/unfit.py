"""What ends a run because of its model: a row *failed* with this sentence, and no number."""


class UnfitModel(Exception):
    """The model breaks the contract of ``models/specification.py``; says how."""
