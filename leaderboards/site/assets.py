"""What all pages of a site share: style, and the libraries that draw charts and sort tables.

Each library is a file of the site, so that a page asks nobody for anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import distribution
from pathlib import Path

import vl_convert

from leaderboards.markup import markup
from leaderboards.views.charts import ON_DARK, VEGA_LITE
from reproduce.plotting.style import PALETTE

OWN = Path(__file__).resolve().parent
STYLE = ("<style>", "</style>")


def _own_style() -> str:
    """The style of the app's own parts, which is a template of the app, and that of pages."""
    app = markup("style").strip().removeprefix(STYLE[0]).removesuffix(STYLE[1])
    return app + (OWN / "site.css").read_text()


def _own_script() -> str:
    ink = json.dumps([PALETTE["black"], ON_DARK])
    return (OWN / "site.js").read_text().replace("INK_BY_THEME", ink)


def _file_of_itables(name: str) -> str:
    place = distribution("itables").locate_file(f"itables/html/{name}")
    return Path(str(place)).read_text()


def _licences() -> str:
    """What the two libraries ask of whoever hands them on."""
    files_by_library = {
        "itables": "assets/tables.js and tables.css: DataTables, as itables ships it",
        "vl-convert-python": "assets/vega.js: Vega, Vega-Lite and Vega-Embed (BSD 3-Clause, "
        "University of Washington Interactive Data Lab), as vl-convert ships them",
    }
    parts = []
    for name, files in files_by_library.items():
        owned = [file for file in distribution(name).files or [] if file.name == "LICENSE"]
        parts += [f"{files}\n\n", *(file.read_text() for file in owned), "\n"]
    return "\n".join(parts)


def _sorting() -> str:
    """DataTables as itables ships it. It is a module, and a browser loads no module from a file of
    a folder, so that a script holds its text and imports that."""
    source = json.dumps(_file_of_itables("dt_bundle.js"))
    blob = f'new Blob([{source}], {{type: "text/javascript"}})'
    return f"window.sorting = import(URL.createObjectURL({blob}));\n"


def _drawing() -> str:
    """Vega, Vega-Lite and Vega-Embed of the version that charts are written for."""
    version = VEGA_LITE.rpartition(".")[0]
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return f"(() => {{\n{bundle}\n}})();\n"


ASSETS: Mapping[str, Callable[[], str]] = {
    "assets/site.css": _own_style,
    "assets/site.js": _own_script,
    "assets/tables.css": partial(_file_of_itables, "dt_bundle.css"),
    "assets/tables.js": _sorting,
    "assets/vega.js": _drawing,
    "assets/licences.txt": _licences,
}
