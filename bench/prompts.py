"""Continuations of many prompts, runs side by side: ``python -m bench.prompts runs=[ID,ID]``."""

from __future__ import annotations

from core.errors import command
from core.words import command_line, texts

HELP = """\
usage: python -m bench.prompts runs=[ID,ID,...] [key=value ...]

Let the models of saved runs go on with the same prompts by beam search, and show their
continuations side by side. The task of every run must be one of text.

  runs=[ID,...]    run ids (names of files in the folder records of the store), parts of them that
                   no other has, or paths of record files
  prompts=FILE     a text with one prompt a line, or YAML: a list of prompts, or such lists by name
                   (default: the file prompts.yaml beside a task that measures such runs)
  beam=K           width of the search (default 2); beam=1 is greedy
  new_tokens=N     the most tokens of a continuation (default 40); fewer where the model's table of
                   positions has no more places
  output=FILE.md   the table in Markdown (default: in the folder prompts of the store)
  store=FOLDER     (default runs)
  device=cpu|cuda  (default: the kind that made the record)
  tasks.KEY=PLACE  where the data of the runs lie, if they are text of your own
  trust=PACKAGE    import models from this package, or this FILE.py, if they are not of this project

example: python -m bench.prompts runs=[babistories-gpt2,babistories-memory_mosaic]"""


main = command_line(
    HELP,
    texts,
    "bench.writing.requests:PromptSettings.of",
    "bench.writing.side_by_side:continue_side_by_side",
)


if __name__ == "__main__":
    command(main)
