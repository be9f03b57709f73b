"""Reading files that anybody may have made, cut short or changed: bounded, strict and typed.

A file is opened only if it is a regular one, so that a pipe or a device neither blocks nor fills
the memory. What it holds is bounded before anything else looks at it, and typed before anything
relies on it. Whatever is wrong is one sentence that names the file.

Example: ``Kind("verdict file", VerdictFile, how="make it again").read_json(path)``.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import yaml
from pydantic import FailFast, TypeAdapter, ValidationError
from pydantic_core import from_json

from core.errors import RUN_FAILED, UserError
from core.files import NOT_REGULAR, open_regular

LARGEST_INTEGER = 2**63 - 1  # what a column of a table holds
LARGEST_NUMBER = 1e150  # squares and their sums are float64 numbers too
MAXIMUM_KEYS = 100_000  # in all mappings of a file together
DEEPEST_YAML = 64
LONGEST_NUMBER = 40  # characters in YAML, where 1:1:1… is a power of sixty
LONGEST_REASON = 300  # characters that a sentence takes over from a file
MAYBE_A_KEY = re.compile(rb'"\s*:')  # every key of JSON ends so, and hardly anything else

Content = TypeVar("Content")
Item = TypeVar("Item")
Several = Annotated[list[Item], FailFast()]  # millions of wrong items are one error, not millions


@dataclass(frozen=True)
class Kind(Generic[Content]):
    """One kind of file.

    Attributes:
        name: as in "there is no NAME at …".
        holds: the type of the content, for pydantic.
        how: what to do about a file that cannot be trusted.
        most: bytes.
    """

    name: str
    holds: type[Content]
    how: str
    most: int = 2**20

    @cached_property
    def _adapter(self) -> TypeAdapter[Content]:
        return TypeAdapter(self.holds)

    def refused(self, path: Path, reason: str) -> UserError:
        """The error that says why the file at ``path`` cannot be trusted."""
        return UserError(
            f"{_one_line(str(path))} {_one_line(reason, LONGEST_REASON)}: {self.how}", RUN_FAILED
        )

    def bytes_of(self, path: Path) -> bytes:
        """The whole file.

        Raises:
            UserError: it is missing, cannot be read, is too large, or is no regular file.
        """
        try:
            with open_regular(path) as file:
                # To ask for the most that there may be takes as much memory for every file.
                size = min(os.fstat(file.fileno()).st_size, self.most)
                content = file.read(size + 1)
        except FileNotFoundError:
            place = _one_line(str(path))
            raise UserError(f"there is no {self.name} at {place}: {self.how}", RUN_FAILED) from None
        except OSError as error:
            same = error.strerror == NOT_REGULAR
            reason = NOT_REGULAR if same else f"cannot be read ({error.strerror})"
            raise self.refused(path, reason) from None
        if len(content) > self.most:
            most = f"{self.most / 2**20:g} MiB"
            raise self.refused(path, f"is larger than a {self.name} may be ({most})")
        return content

    def read_json(self, path: Path) -> Content:
        """The typed content of a JSON file.

        Raises:
            UserError: as :meth:`bytes_of`, or it is not JSON, or holds anything else.
        """
        content = self.bytes_of(path)
        self.tree(path, content)
        return self._typed(path, lambda: self._adapter.validate_json(content, strict=True))

    def read_yaml(self, path: Path) -> Content:
        """The typed content of a YAML file without tags and aliases.

        Raises:
            UserError: as :meth:`bytes_of`, or it is not such YAML, or holds anything else.
        """
        try:
            tree = yaml.load(self.bytes_of(path), _PlainLoader)  # a SafeLoader
        except yaml.MarkedYAMLError as error:
            line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise self.refused(path, f"is not plain YAML ({error.problem}{line})") from None
        except (yaml.YAMLError, ValueError) as error:  # such as a date of month 13
            raise self.refused(path, f"is not plain YAML ({error})") from None
        self._bounded(path, tree)
        return self.typed(path, tree)

    def tree(self, path: Path, content: bytes, bounded: bool = False) -> Any:
        """What JSON ``content`` of the file at ``path`` holds, bounded but not typed.

        Args:
            bounded: this very content was found within bounds before, which is not looked at again.

        Raises:
            UserError: it is not JSON in UTF-8, is nested deeper than 200 levels, or holds a number
                that is not finite, too large, or of thousands of digits, too many keys, or one key
                twice.
        """
        try:
            tree = from_json(content, allow_inf_nan=False)
        except ValueError as error:
            raise self.refused(path, f"is truncated or not JSON ({error})") from None
        if bounded:
            return tree
        keys = self._bounded(path, tree)
        if len(MAYBE_A_KEY.findall(content)) > keys and (twice := _twice(content)):
            raise self.refused(path, f"holds the key {twice!r:.80} twice in one place")
        return tree

    def typed(self, path: Path, tree: Any, strict: bool = True) -> Content:
        """A tree of the file at ``path`` as what the file has to hold.

        Args:
            strict: no value is converted, as from a list to a tuple.

        Raises:
            UserError: it holds anything else.
        """
        return self._typed(path, lambda: self._adapter.validate_python(tree, strict=strict))

    def _typed(self, path: Path, validate: Callable[[], Content]) -> Content:
        try:
            return validate()
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "file"
            problem = f"is not a {self.name} ({_one_line(place, 120)}: {first['msg']})"
            raise self.refused(path, problem) from None

    def _bounded(self, path: Path, tree: Any) -> int:
        """How many keys a tree has, which is not too much."""
        problem, keys = _walked(tree)
        if problem:
            raise self.refused(path, problem)
        return keys


def own_yaml(path: Path) -> Any:
    """What a YAML file of this project's own holds, read by libyaml where PyYAML was built with it:
    in a tenth of the time."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), loader)


def beyond_bounds(tree: Any) -> str:
    """Why a tree of mappings, lists and scalars is too much to work with, as in "holds …"; empty
    if it is not."""
    return _walked(tree)[0]


def _walked(tree: Any) -> tuple[str, int]:
    """What is too much in a tree, and its keys."""
    keys, waiting = 0, [[tree]]
    while waiting:
        node: Any = waiting.pop()
        if type(node) is dict:
            keys += len(node)
            node = node.values()
        elif _are_plain_numbers(node):  # as most of a record
            continue
        for value in node:
            kind = type(value)
            if kind is float:
                if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                    reason = f"holds the number {value!r}, which is not finite or beyond ±1e150"
                    return reason, keys
            elif kind is int:
                if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
                    return "holds an integer of more than 64 bits", keys
            elif kind is dict or kind is list:
                waiting.append(value)
    return (f"holds more than {MAXIMUM_KEYS} keys" if keys > MAXIMUM_KEYS else ""), keys


def _are_plain_numbers(values: list[Any]) -> bool:
    """Whether all are floats within bounds, which one pass tells: the root of the sum of their
    squares is no smaller than any of them, and NaN with one that is."""
    return {*map(type, values)} == {float} and math.hypot(*values) <= LARGEST_NUMBER


def _twice(content: bytes) -> str | None:
    """A key that one object of JSON has more than once: readers would not agree on its value."""
    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(key for key, _ in pairs)
        repeated.extend(key for key, times in counts.items() if times > 1)

    json.loads(content, object_pairs_hook=note)
    return repeated[0] if repeated else None


def read_all(
    paths: Iterable[Path], read: Callable[[Path], Content], refused: list[UserError] | None = None
) -> Iterator[Content]:
    """What ``read`` makes of each file. With ``refused`` the errors of files that cannot be trusted
    are put there, and these files are passed over. Each error names its file.

    Raises:
        UserError: without ``refused``, at the first such file.
    """
    for path in paths:
        try:
            content = read(path)
        except UserError as error:
            place = _one_line(str(path))
            sentence = str(error) if place in str(error) else f"{place}: {error}"
            refusal = UserError(sentence, error.exit_code)
            if refused is None:
                raise refusal from None
            refused.append(refusal)
        else:
            yield content


def _one_line(text: str, most: int | None = None) -> str:
    """Text of others in one line, cut at ``most`` characters, without characters that a terminal
    obeys."""
    short = text if most is None or len(text) <= most else f"{text[:most]}…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in short)


# libyaml finds the events of a text, where PyYAML was built with it, in a tenth of the time.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(yaml.composer.Composer, _Parser):
    """YAML whose content is as large as its text: no aliases; and of the kinds that it looks like:
    no tags. Nodes are composed here, of the events of either parser."""

    def __init__(self, stream: bytes) -> None:
        _Parser.__init__(self, stream)
        yaml.composer.Composer.__init__(self)

    _depth = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem="a key twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias", problem_mark=event.start_mark)
        if event.tag is not None:
            raise yaml.MarkedYAMLError(problem="a tag", problem_mark=event.start_mark)
        if self._depth == DEEPEST_YAML:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        is_number = isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":str")
        if is_number and len(node.value) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(problem="a long number", problem_mark=event.start_mark)
        return node
