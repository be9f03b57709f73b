"""Documents out of one text, JSON-lines or Parquet file, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.text.errors import TextError

END_MARK = "<|endoftext|>"
LOOKED_AT = 1 << 20  # bytes of a file in which marks within lines are looked for
LONGEST_DOCUMENT = 1 << 24  # bytes (characters of a text of several lines)
COLUMN = "text"


def read_documents(path: Path, kind: str | None = None) -> Iterator[str]:
    """The documents of a file in order, without those that are empty or blank.

    .txt: each ends with the mark ``<|endoftext|>``, on a line of its own or within one, if the file
    has such marks, else each line is one. .jsonl, .json: each line is a JSON string, or an object
    with "text". .parquet: the column "text". ``kind`` is one of these endings where that of the
    file says something else.

    Raises:
        TextError: the file is not of that kind; with its name and the line, if known.
    """
    reader = READERS.get(kind or path.suffix.lower())
    if reader is None:
        raise TextError(f"{path.name}: expected a file that ends with {', '.join(READERS)}")
    try:
        for document in reader(path):
            if document and not document.isspace():
                yield document
    except OSError as error:
        raise TextError(f"{path.name} cannot be read: {error.strerror or error}") from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text without line end) of each line."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_DOCUMENT + 1):
            number += 1
            if len(line) > LONGEST_DOCUMENT:
                raise _too_long(path, number)
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise TextError(
                    f"{path.name}, line {number}: byte {error.start + 1} is not UTF-8; save the "
                    "file as UTF-8 and try again"
                ) from error
            if number == 1:
                # The byte-order mark of some editors.
                text = text.removeprefix("\ufeff")
            yield number, text.rstrip("\r\n")


def _text(path: Path) -> Iterator[str]:
    # Two readings of the file: whether it has marks decides what a line is.
    if not any(END_MARK in line for _, line in _lines(path)):
        for _, line in _lines(path):
            yield line
        return
    lines: list[str] = []
    characters = 0
    for number, line in _lines(path):
        *ended, rest = line.split(END_MARK)
        for last_line in ended:
            if not last_line.isspace():  # blanks beside a mark belong to no document
                lines.append(last_line)
            yield "\n".join(lines).strip("\n")
            lines, characters = [], 0
        if ended and (not rest or rest.isspace()):
            continue
        lines.append(rest)
        characters += len(rest) + 1
        if characters > LONGEST_DOCUMENT:
            raise _too_long(path, number)
    yield "\n".join(lines).strip("\n")


def marks_within_lines(path: Path) -> bool:
    """Whether the beginning of a file has end marks that do not stand alone on their line."""
    try:
        with path.open("rb") as file:
            beginning = file.read(LOOKED_AT)
    except OSError:  # said when it is read
        return False
    mark = END_MARK.encode()
    lines = (line.strip(b"\r\n") for line in beginning.split(b"\n") if mark in line)
    return any(line != mark for line in lines)


def _json_lines(path: Path) -> Iterator[str]:
    for number, line in _lines(path):
        if not line or line.isspace():
            continue
        wanted = f"{path.name}, line {number}: expected a JSON string or an object with 'text'"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TextError(f"{wanted} on each line, found no whole JSON value") from error
        if isinstance(value, dict):
            value = value.get(COLUMN)
        if not isinstance(value, str):
            raise TextError(f"{wanted} on each line, found another JSON value")
        if "\\u" in line and not _is_unicode(value):
            raise TextError(f"{wanted}, found half of a surrogate pair in it")
        yield value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parquet(path: Path) -> Iterator[str]:
    import pyarrow
    from pyarrow import parquet

    try:
        # Pages are read as they are needed: a row group may be larger than the memory.
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            columns = {field.name: field.type for field in file.schema_arrow}
            if COLUMN not in columns:
                raise TextError(
                    f"{path.name} has no column '{COLUMN}' (it has {', '.join(columns)}): rename "
                    "the column of the documents"
                )
            kind = columns[COLUMN]
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                raise TextError(f"{path.name}: column '{COLUMN}' holds {kind}, expected strings")
            for batch in file.iter_batches(batch_size=256, columns=[COLUMN], use_threads=False):
                for document in batch.column(0).to_pylist():
                    yield document or ""
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise TextError(f"{path.name} is not a whole Parquet file with UTF-8 text") from error


def _too_long(path: Path, line: int) -> TextError:
    return TextError(
        f"{path.name}, line {line}: a document of more than {LONGEST_DOCUMENT >> 20} MiB; write "
        f"one document on each line, or a line {END_MARK} after each"
    )


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    ".txt": _text,
    ".jsonl": _json_lines,
    ".json": _json_lines,
    ".parquet": _parquet,
}


def text_bytes(path: Path) -> int:
    """About how many bytes of text a file holds."""
    if path.suffix.lower() != ".parquet":
        return path.stat().st_size
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    except pyarrow.ArrowInvalid:  # said when it is read
        return 0
    return sum(
        group.column(i).total_uncompressed_size
        for group in groups
        for i in range(group.num_columns)
        if group.column(i).path_in_schema == COLUMN
    )


def fingerprint(path: Path) -> dict[str, str | int]:
    """Name, size and time of change: what tells one state of a file from another."""
    facts = path.stat()
    return {"name": path.name, "bytes": facts.st_size, "changed_ns": facts.st_mtime_ns}
