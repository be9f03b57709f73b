"""Let a trained model go on with a text: ``python -m bench.generate run=ID prompt=TEXT``."""

from __future__ import annotations

from core.errors import command
from core.words import command_line, texts

HELP = """\
usage: python -m bench.generate run=ID prompt=TEXT [beam=K | temperature=T top_p=P] [key=value ...]

Let the model of a saved run go on with a text. The run's task must be one of text.

  run=ID          a run id (the name of a file in the folder records of the store), a part of one
                  that no other has, or the path of a record file
  prompt=TEXT     taken as it is; an empty one starts a new text
  beam=K          beam search of width K (default 2); beam=1 is greedy
  temperature=T   sampling instead, from logits divided by T (default 1) ...
  top_p=P         ... among the likeliest tokens that together have probability P (default 1)
  new_tokens=N    stop after N tokens where the text does not end before (default 100)
  count=N         continuations to print (default 1; of a beam at most K)
  seed=N          of sampling (default 0)
  store=FOLDER    (default runs)
  device=cpu|cuda (default: the kind that made the record)
  tasks.KEY=PLACE where the task's data lies, if it is text of your own
  trust=PACKAGE   import the run's model from this package, or this FILE.py, if it is not of this
                  project

example: python -m bench.generate run=ID prompt="Once upon a time" temperature=0.8 top_p=0.95"""


main = command_line(
    HELP,
    texts,
    "bench.writing.requests:GenerationSettings.of",
    "bench.writing.continuations:print_continuations",
)


if __name__ == "__main__":
    command(main)
