"""What ``leaderboards.export`` does: the site of a board, written to its folder."""

from __future__ import annotations

from core.amounts import amount
from core.errors import OK
from core.places import readable
from core.progress import progress
from leaderboards.export import ExportRequest
from leaderboards.site.folder import exported_files, write
from leaderboards.site.site import Site


def export(request: ExportRequest) -> int:
    """Write the site, and print where it is; the exit code.

    Raises:
        UserError: the folder has other files, or the board cannot be read.
    """
    target = request.target
    exported_files(target)  # refused at once, not after all pages are made
    with progress() as report:
        site = Site(request.board)
        count, changed = write(target, site.digest, site.files(report))
    board_name = site.digest[:12]
    print(
        f"{readable(target)}: {amount(count, 'file')} of board {board_name}, {changed} of them new "
        "or changed"
    )
    print(f"open {(target / 'index.html').resolve().as_uri()}")
    return OK
