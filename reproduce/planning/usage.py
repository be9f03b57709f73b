"""What the command does, apart from it so that it is told before anything heavy is imported."""

HELP = """\
usage: python -m reproduce evidence [key=value ...]

Which claims have no verdict yet, which runs their figures miss, and what these cost by measured
speed; then the runs are made, most verdicts an hour first, until all is there or time is over. It
can be killed at any moment: the same command goes on and repeats nothing.

  preset=NAME            smoke, laptop (default), gpu, paper
  hours=H                end after so many hours, with the run in progress kept (default: when done)
  workers=N              worker processes (default 0: the runs are made in this process)
  figures=[NAME,...]     these reproductions alone (default: all that python -m reproduce lists)
  store=FOLDER           where runs go (default runs)
  executor=ray           the runs are made on a Ray cluster; ray.KEY=… as bench.sweep has them
  storage=postgresql://… several machines that name the same database make each run once, and all
                         have its record
  confirm=true           instead: make the runs of claims that were set after their runs had begun
                         with seeds that no record has, and judge each claim by those alone
  dry_run=true           print the plan and what would decide each open claim; run nothing
  page=FILE              with dry_run=true: write there what would decide each open claim
  device_like=NAME       with dry_run=true: hours on that device, each run alone, and how many of
                         them make the plan faster; names: bench/roofline/devices.yaml, or here
  any other word         goes to the figures that know it: corpus=local stories=PATH wiki=PATH,
                         device=cpu

exit code: 0 when all is there or time is over, 1 if something could not be run, 130 interrupted
example: python -m reproduce evidence preset=laptop workers=2 hours=8"""
