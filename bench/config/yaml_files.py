"""YAML files of settings, read as OmegaConf reads them, in a tenth of its time.

Numbers such as ``1e-3`` are numbers, a date is text, and a key that stands twice is refused.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from core.errors import first_line

if TYPE_CHECKING:
    from yaml import SafeLoader as Loader
else:  # by libyaml, where PyYAML was built with it
    Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FLOAT, DATE = "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"
# YAML 1.2 has numbers without a point, such as 1e-3; what else is one stays so.
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")


# What the parser says, in words of what has to be written there.
WORDS = {
    "did not find expected ": "expected ",
    "mapping values are not allowed in this context": "there is a ':' where a value is under way: "
    "write each KEY: VALUE on a line of its own, indented as its neighbours, and a text with ': ' "
    "in quotes",
    "found character that cannot start any token": "no value or key begins with this character: "
    "indent by spaces, and put the text in quotes",
    "found unexpected end of stream": "expected the quotation mark that ends the text",
    "found duplicate key": "expected each key once, and this is another",
}
NODES = {"while parsing a flow mapping": "{ of", "while parsing a flow sequence": "[ of"}


def fault_of_yaml(error: Exception, name: str) -> str:
    """Where a file is no YAML and what was expected there, as one sentence.

    Args:
        error: what :func:`read_yaml` raised.
        name: the file, as a person knows it.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"{name} is no UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{name} cannot be read: {first_line(error)}"
    problem = str(error.problem)
    for said, meant in WORDS.items():
        problem = problem.replace(said, meant)
    begun = ""
    if error.context in NODES and error.context_mark is not None:
        begun = f" after the {NODES[error.context]} {_position(error.context_mark)}"
    return f"{name}, {_position(error.problem_mark)}: {problem}{begun}"


def _position(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


class _SettingsLoader(Loader):
    """Refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"found duplicate key {key.value}", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_SettingsLoader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != DATE]
    for first, pairs in Loader.yaml_implicit_resolvers.items()
}
_SettingsLoader.add_implicit_resolver(FLOAT, _EXPONENT, list("-+0123456789"))


def read_yaml(path: Path, *, resolve: bool = True) -> Any:
    """The content of a file; a mapping without keys of an empty one.

    Args:
        resolve: whether to put in what ``${oc.env:NAME,default}`` refers to.

    Raises:
        UnicodeDecodeError, yaml.YAMLError: it cannot be read, or refers to what is not there.
    """
    text = path.read_text(encoding="utf-8")
    content = yaml.load(text, _SettingsLoader)  # a SafeLoader
    if content is None:
        return {}
    if not resolve or "${" not in text:
        return content
    import omegaconf  # few files refer to anything

    try:
        return omegaconf.OmegaConf.to_container(omegaconf.OmegaConf.create(content), resolve=True)
    except omegaconf.errors.OmegaConfBaseException as error:
        raise yaml.YAMLError(str(error)) from None
