"""The one kind of mistake that text from outside can make."""


class TextError(ValueError):
    """One clear sentence on a corpus, a tokenizer or a prepared stream that cannot be used."""
