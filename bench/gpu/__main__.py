"""A GPU against the clock: ``python -m bench.gpu minutes=12``."""

from __future__ import annotations

from bench.config.command_line import read
from core.errors import command
from core.words import command_line

HELP = """\
usage: python -m bench.gpu [minutes=12] [key=value ...]

Everything that a GPU is wanted for, on a bare machine without a network, in as many minutes: tests
of kernels and models on the device; a Memory Mosaic of 12 x 768 against GPT2, plain, compiled and
as captured graphs; launches counted; stacked trainings against single ones; RegBench and recall
at one budget, many trainings at a time. Each part is a process with a limit; what fails is
noted with its reason, and the next part begins. A sweep begins only if it is forecast to end in
time, and what runs at the end keeps its checkpoints. The same command goes on where an earlier
one stopped: parts that came to no end then are tried last.

  minutes=12       after which it has ended
  store=FOLDER     default runs/gpu: records as of bench.sweep, parts/, summary.json and summary.md
  device=cuda      cpu: a rehearsal at a tenth of the size; what needs CUDA is skipped
  scale=S          the factor of all sizes (default 1; on a CPU 0.1)
  "parts=[a,b]"    these alone; dry_run=true names all
  "models=[a,b]"   of RegBench and recall these alone
  again=true       also the parts that are done
  workers=N        processes of a sweep (default: cores, on a GPU at most 16)
  mps=true         they share the GPU by nvidia-cuda-mps-control, where that is there and works
  pack_mib=N       at the end all of the store in archives of at most so many MiB, in pack/
  dry_run=true     print the parts, their limits and their commands, and run nothing

exit code: 0; 1 when a part failed (the others were done all the same)
example: python -m bench.gpu minutes=12 pack_mib=16"""


main = command_line(HELP, read, "bench.gpu.calls:call")


if __name__ == "__main__":
    command(main)
