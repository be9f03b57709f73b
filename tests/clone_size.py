"""``nox -s clone_size``: what a checkout, a shallow clone and a full clone of a commit take.

The first two fail above what README promises; of the full one, whose history cannot shrink, the
size is printed. A shallow clone has one commit: ``git clone --depth 1``.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from core.files import ROOT

MEGABYTE = 10**6
BLOCK = 4096  # bytes that a file system gives a file at once
LARGEST_CHECKOUT = 65 * MEGABYTE
LARGEST_SHALLOW_CLONE = 35 * MEGABYTE  # of .git, without the checkout


def taken(folder: Path) -> int:
    """Bytes that the files below a folder take on a disk, without those of ``.git`` in it."""
    total = 0
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name != ".git"]
        for name in names:
            total += -(-(Path(place) / name).lstat().st_size // BLOCK) * BLOCK
    return total


def cloned(folder: Path, *words: str) -> Path:
    """A clone as over a network: nothing is shared with this checkout."""
    command = ["git", "clone", "--quiet", *words, ROOT.as_uri(), str(folder)]
    subprocess.run(command, check=True)
    return folder


def main() -> None:
    """Print the sizes.

    Raises:
        SystemExit: the checkout or the shallow clone is too large.
    """
    git = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    try:
        is_shallow = subprocess.run(git, capture_output=True, check=True).stdout.strip() == b"true"
        with tempfile.TemporaryDirectory(prefix="clones-") as name:
            shallow = cloned(Path(name) / "shallow", "--depth", "1")
            checkout, of_git = taken(shallow), taken(shallow / ".git")
            full = taken(cloned(Path(name) / "full", "--bare"))
    except (OSError, subprocess.CalledProcessError) as error:
        # An archive without git, a checkout of another user, a clone without its older files.
        print(f"not measured, since git makes no clone of this checkout: {error}")
        return
    print(f"checkout: {checkout / MEGABYTE:.1f} MB (at most {LARGEST_CHECKOUT / MEGABYTE:.0f})")
    limit = LARGEST_SHALLOW_CLONE / MEGABYTE
    print(f".git of a shallow clone: {of_git / MEGABYTE:.1f} MB (at most {limit:.0f})")
    note = " (this checkout is shallow itself)" if is_shallow else ""
    print(f"full clone without checkout: {full / MEGABYTE:.1f} MB{note}")
    if checkout > LARGEST_CHECKOUT or of_git > LARGEST_SHALLOW_CLONE:
        raise SystemExit("too large: `python -m leaderboards.pack` moves records together")


if __name__ == "__main__":
    main()
