"""``python -m tasks.bigram TEXT > table.json``: how often a text has each character and pair."""

import sys
from pathlib import Path

from tasks.bigram.table import write

if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python -m tasks.bigram TEXT > table.json, with a plain text in UTF-8")
    print(write(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
