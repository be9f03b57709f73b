"""Make one run and write its record: ``python -m bench.train``.

``python -m bench.measure`` is another name of the same command.
"""

from __future__ import annotations

from bench.config.command_line import read
from core.errors import command
from core.words import SETTINGS_HELP, command_line

HELP = f"""\
usage: python -m bench.train tasks=TASK models=MODEL [key=value ...]

Train one model on one task, evaluate it by the task's protocol and write a run record; or measure
a memory, or another model that a task builds and trains within its own protocol.
The same command again serves the record; a training that was interrupted goes on from its
checkpoint. predictors=true in place of models= makes the records of the task's predictors, which
need no training.

{SETTINGS_HELP}
  output=FILE            write where the records lie there, as a list in JSON

examples: python -m bench.train tasks=regbench models=memory_mosaic preset=smoke seed=0
          python -m bench.train tasks=capacity models=delta_rule preset=smoke seed=0"""


main = command_line(HELP, read, "bench.search.single:make")


if __name__ == "__main__":
    command(main)
