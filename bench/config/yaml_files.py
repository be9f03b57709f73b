"""YAML files of settings, read as OmegaConf reads them, in a tenth of its time.

Numbers such as ``1e-3`` are numbers, a date is text, and a key that stands twice is refused.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from yaml import SafeLoader as Loader
else:  # by libyaml, where PyYAML was built with it
    Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FLOAT, DATE = "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"
# YAML 1.2 has numbers without a point, such as 1e-3; what else is one stays so.
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$")


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
