"""What somebody should know of text of their own before it is trained on.

Nothing here is refused: text that lies on both sides of a split may be meant so. But no loss says
that it was measured on what was learned by heart.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.escaping import terminal
from core.files import open_regular, write_atomically
from tasks.text.corpora import STORY_SPLITS, Corpus
from tasks.text.stream import TokenStream

_printed: set[str] = set()


def print_notes_on_text(task: Any) -> None:
    """Print what is notable of the text of a task, once in a command; its text is prepared.

    Args:
        task: of any kind; one without text of the user's has nothing to note.
    """
    if multiprocessing.parent_process() is not None:  # a worker: the command has said it
        return
    for corpus in [value for value in vars(task).values() if isinstance(value, Corpus)]:
        notes = list(getattr(corpus, "notes", ()))
        in_two_files = getattr(corpus, "apart", True) is False and corpus.splits == STORY_SPLITS
        if in_two_files and corpus.name == "local" and hasattr(task, "stream"):
            train, held_out = (task.stream(split) for split in STORY_SPLITS)
            if shared := shared_documents(train, held_out):
                notes.append(
                    f"{shared:,} of the {len(held_out):,} documents of the held-out text are also "
                    "in the training text: the loss on them is no loss on new text"
                )
        for note in notes:
            if note not in _printed:
                _printed.add(note)
                print(terminal(f"note: {note}"), file=sys.stderr)


def shared_documents(train: TokenStream, held_out: TokenStream) -> int:
    """How many documents of the held-out text have an equal one in the training text.

    It is counted once for two streams: the number is kept beside them.
    """
    contents = f"{train.manifest.tokens_sha256} {held_out.manifest.tokens_sha256}"
    name = hashlib.sha256(contents.encode()).hexdigest()[:16]
    path = train.folder.parent / f"shared-documents-{name}.json"
    # A file of a hundred characters at most: whatever else lies there is no count.
    with suppress(OSError, ValueError), open_regular(path) as file:
        return int(json.loads(file.read(100)))
    learned = _hashes(train)
    shared = int(np.isin(_hashes(held_out), learned).sum())
    with suppress(OSError):  # where it cannot be kept, it is counted again
        write_atomically(Path(path), json.dumps(shared).encode())
    return shared


def _hashes(stream: TokenStream) -> NDArray[np.uint64]:
    """uint64 (documents,): a hash of the tokens of each; two of a million documents have the same
    one by chance with a probability of 3e-8."""
    hashes = np.empty(len(stream), dtype=np.uint64)
    tokens, starts = np.asarray(stream.tokens), stream.starts.tolist()
    for index in range(len(stream)):
        content = tokens[starts[index] : starts[index + 1]].tobytes()
        digest = hashlib.blake2b(content, digest_size=8).digest()
        hashes[index] = int.from_bytes(digest, "little")
    return hashes
