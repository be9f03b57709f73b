"""A prepared corpus: one flat memory-mapped stream of tokens and an index of its documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.text.errors import TextError

TOKENS, STARTS, MANIFEST = "tokens.bin", "starts.bin", "manifest.json"


class Manifest(BaseModel):
    """What a stream holds and where it came from (the counts of Memory Mosaics, Table 1).

    Attributes:
        key: facts by which the stream is recognised as that of its input.
        tokens: length of the stream, end marks included.
        tokens_without_ends: the same without end marks, as `encode_ordinary` counts.
        bytes: of the text in UTF-8.
        manifest_sha256: of the other fields, so that an edited manifest is recognised.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    corpus: str
    licence: str
    source: str
    split: str
    key: dict[str, Any]
    tokenizer: str
    tokenizer_sha256: str
    vocabulary: int
    end_of_text: int
    documents: int
    tokens: int
    tokens_without_ends: int
    characters: int
    bytes: int
    tokens_sha256: str
    starts_sha256: str
    manifest_sha256: str = ""

    def sealed(self) -> Manifest:
        """The same with the hash of its fields."""
        return self.model_copy(update={"manifest_sha256": self.content_sha256()})

    def content_sha256(self) -> str:
        """SHA-256 of the fields as JSON, without the one that holds it."""
        content = self.model_dump(mode="json", exclude={"manifest_sha256"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class TokenStream:
    """All documents of a split in order, each followed by its end mark.

    Attributes:
        tokens: memory-mapped, read-only uint16 (tokens,).
        starts: memory-mapped, read-only int64 (documents + 1,): document i is
            ``tokens[starts[i]:starts[i + 1]]``, its end mark last.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        # Little-endian on every machine, as the files are written.
        self.tokens: NDArray[np.uint16] = np.memmap(folder / TOKENS, dtype="<u2", mode="r")
        self.starts: NDArray[np.int64] = np.memmap(folder / STARTS, dtype="<i8", mode="r")

    @classmethod
    def open(cls, folder: Path, verify: bool = True) -> TokenStream:
        """The stream in ``folder``; ``verify`` reads it once and compares its hashes.

        Raises:
            TextError: a file is missing, cut short or was edited.
        """
        folder = Path(folder)
        advice = f"delete the folder {folder} and prepare it again"
        try:
            manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
            # The manifest before the files: its hashes are what these are held against.
            if verify and manifest.manifest_sha256 != manifest.content_sha256():
                raise TextError(f"{MANIFEST} was changed after it was prepared: {advice}")
            sizes = {
                TOKENS: (2 * manifest.tokens, manifest.tokens_sha256),
                STARTS: (8 * (manifest.documents + 1), manifest.starts_sha256),
            }
            for name, (size, sha256) in sizes.items():
                # The size first: a file that was cut short need not be read.
                length = (folder / name).stat().st_size
                if length != size:
                    raise TextError(f"{name} has {length} bytes instead of {size}: {advice}")
                if verify and file_sha256(folder / name) != sha256:
                    raise TextError(f"{name} was changed after it was prepared: {advice}")
        except FileNotFoundError as error:
            raise TextError(f"{error.filename} is missing: {advice}") from error
        except ValidationError as error:
            raise TextError(f"{MANIFEST} cannot be read: {advice}") from error
        return cls(folder, manifest)

    def __len__(self) -> int:
        """Number of documents."""
        return self.manifest.documents

    def document(self, index: int) -> NDArray[np.uint16]:
        """uint16 (tokens,): document ``index`` from 0, with its end mark.

        Raises:
            IndexError: there is no such document.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    # A worker process maps the files itself; the hashes were checked here.
    def __reduce__(self) -> tuple[Callable[[Path, bool], TokenStream], tuple[Path, bool]]:
        return TokenStream.open, (self.folder, False)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
