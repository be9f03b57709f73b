"""The names of known text. A record holds what its reader called the text, such as "local", and the
hash of its tokens; by that hash it is recognised, wherever it lay.

``tasks/text/samples/NAME.yaml`` says what is known of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from core.files import ROOT
from core.reading import own_yaml

SAMPLES = ROOT / "tasks" / "text" / "samples"


@dataclass(frozen=True)
class NamedText:
    """A text that is published elsewhere.

    Attributes:
        label: what it is, in a few words.
        attribution: who wrote it.
        changes: what was done to it here, as its licence asks to say.
        page: address of the dataset that it is drawn from.
        tokens_sha256: hashes of its splits, as token streams of several tokenizers.
    """

    name: str
    label: str
    licence: str
    attribution: str
    changes: str
    page: str
    tokens_sha256: frozenset[str]

    @property
    def credit(self) -> str:
        """Whose the text is, under which licence, and what was done to it."""
        return f"{self.name}: {self.attribution}, {self.licence}; {self.changes}"


@cache
def named_texts() -> tuple[NamedText, ...]:
    """All that have a name."""
    texts = []
    for path in sorted(SAMPLES.glob("*.yaml")):
        facts = own_yaml(path)
        hashes = [digest for split in facts["tokens_sha256"].values() for digest in split.values()]
        about = {key: facts[key] for key in ("label", "licence", "attribution", "changes", "page")}
        texts.append(NamedText(path.stem, **about, tokens_sha256=frozenset(hashes)))
    return tuple(texts)


def named_text(tokens_sha256: str) -> NamedText | None:
    """The text with a split of these tokens, if it has a name."""
    return next((text for text in named_texts() if tokens_sha256 in text.tokens_sha256), None)


def with_named_text(record: RunRecord) -> RunRecord:
    """The record, with name, licence and source of each known text in ``arrays.corpus``."""
    facts = record.arrays.get("corpus")
    if not isinstance(facts, dict):
        return record
    named = {split: _with_name(of_split) for split, of_split in facts.items()}
    return record.model_copy(update={"arrays": {**record.arrays, "corpus": named}})


def _with_name(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    text = named_text(str(facts.get("tokens_sha256")))
    if text is None:
        return facts
    return {**facts, "corpus": text.name, "licence": text.licence, "source": text.page}
