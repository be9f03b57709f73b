"""Corpora of the Hugging Face hub, streamed at a pinned revision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.text.corpora import ARTICLE_SPLITS, STORY_SPLITS, Corpus, Report
from tasks.text.errors import TextError

TINYSTORIES = "roneneldan/TinyStories"
TINYSTORIES_REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
WIKIPEDIA = "wikimedia/wikipedia"
WIKIPEDIA_REVISION = "b04c8d1ceb2f5cd4588862100d08de323dccfbaa"
SIMPLE_ENGLISH = "20231101.simple"
DOCUMENT_BYTES = 1000  # of a story or a short article, about; for progress only
VALID_SHARE = 20  # of so many documents that are wanted for training one more is for validation


class HubCorpus(Corpus):
    """The column "text" of a dataset.

    Args:
        splits: our name of a split → its name on the hub and about how many bytes it has.
        size: so many of the first documents, and no more is read from the network; all if not
            given. Those of "valid" are fewer.
    """

    def __init__(
        self,
        name: str,
        licence: str,
        repository: str,
        revision: str,
        splits: dict[str, tuple[str, int]],
        configuration: str | None = None,
        size: int | None = None,
    ) -> None:
        self.name, self.licence = name if size is None else f"{name}_{size}", licence
        self.source = f"https://huggingface.co/datasets/{repository}/tree/{revision}"
        self.splits = tuple(splits)
        self._repository, self._revision = repository, revision
        self._splits, self._configuration = splits, configuration
        self._sizes = {} if size is None else dict.fromkeys(splits, size)
        if "valid" in self._sizes:
            self._sizes["valid"] = max(1, self._sizes["valid"] // VALID_SHARE)

    def key(self, split: str) -> dict[str, Any]:
        return {
            "dataset": self._repository,
            "configuration": self._configuration,
            "revision": self._revision,
            "split": self._splits[split][0],
            **({"documents": self._sizes[split]} if self._sizes else {}),
        }

    def text_bytes(self, split: str) -> int:
        whole = self._splits[split][1]
        return min(whole, DOCUMENT_BYTES * self._sizes[split]) if self._sizes else whole

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        from datasets import load_dataset
        from huggingface_hub.utils import logging

        logging.set_verbosity_error()  # it would print each of its retries
        try:
            rows = load_dataset(
                self._repository,
                self._configuration,
                split=self._splits[split][0],
                revision=self._revision,
                streaming=True,
            ).select_columns(["text"])
            for row in rows.take(self._sizes[split]) if self._sizes else rows:
                if row["text"] and not row["text"].isspace():
                    yield row["text"]
        except Exception as error:
            # The hub's client raises errors of half a dozen libraries; all mean the same here.
            raise TextError(
                f"the dataset {self._repository} cannot be read from the Hugging Face hub "
                f"({type(error).__name__}): give the same command again when the network is "
                "there, or choose corpus local with files of yours, or corpus grammar, which "
                "needs neither"
            ) from error


def tinystories(size: int | None = None) -> HubCorpus:
    """TinyStories (Eldan & Li 2023), or the first ``size`` of its training stories."""
    return HubCorpus(
        "tinystories",
        "CDLA-Sharing-1.0",
        TINYSTORIES,
        TINYSTORIES_REVISION,
        dict(zip(STORY_SPLITS, (("train", 1_900 << 20), ("validation", 19 << 20)), strict=True)),
        size=size,
    )


def simple_wikipedia(size: int | None = None) -> HubCorpus:
    """Simple English Wikipedia, the dump of 1 November 2023, or its first ``size`` articles."""
    return HubCorpus(
        "simple_wikipedia",
        "CC-BY-SA-3.0 and GFDL",
        WIKIPEDIA,
        WIKIPEDIA_REVISION,
        {ARTICLE_SPLITS[0]: ("train", 280 << 20)},
        SIMPLE_ENGLISH,
        size,
    )
