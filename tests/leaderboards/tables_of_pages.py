"""The tables of measurements on a page of Markdown, read back."""

import re
from collections import ChainMap, defaultdict


def tables_on(page: str) -> list[dict[str, tuple[str, bool]]]:
    """The tables of measurements on a page: name -> (value, whether it was trained)."""
    found: list[dict[str, tuple[str, bool]]] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if line.startswith("| model | rank |"):
            found.append({})
        elif found and len(cells) in (7, 8) and not line.startswith("|---"):
            name = cells[0].removeprefix("| ")
            found[-1][name.strip("*")] = (cells[2], not name.startswith("*"))
    return found


def tables_whatever_the_steps(page: str) -> list[dict[str, tuple[str, bool]]]:
    """Tables that differ in the length of training alone as one: of a name the longest counts."""
    found: dict[str, dict[int, dict[str, tuple[str, bool]]]] = defaultdict(dict)
    captions = re.findall(r"^(\*\*.*?\*\* \(.*?\))", page, re.MULTILINE)
    for caption, table in zip(captions, tables_on(page), strict=True):
        if steps := re.search(r", steps=(\d+)", caption):
            found[caption.replace(steps[0], "")][int(steps[1])] = table
    return [dict(ChainMap(*(own[n] for n in sorted(own, reverse=True)))) for own in found.values()]
