"""What the command does, apart from it so that it is told before anything heavy is imported."""

HELP = """\
usage: python -m reproduce                       what there is
       python -m reproduce NAME [key=value ...]  run what is missing, draw, judge the claims
       python -m reproduce claims [update=true]  when each claim was last set; page=FILE: a
                                                 table of those set after their runs had begun
       python -m reproduce repeats [update=true]  which committed runs are older ones made again
       python -m reproduce same commit=COMMIT    whether all say what they said at a commit
       python -m reproduce untrained WORDS       the final runs of a sweep before their training
       python -m reproduce evidence [key=value ...]  the runs that open claims miss: their cost, and
                                                 making them; evidence --help says more
       python -m reproduce verdicts [update=true]  the committed verdicts by the records of today

  preset=NAME       smoke (default), laptop, gpu, paper
  models=+MODEL     MODEL, or your own package.Class, beside the models that the figure compares;
                    marked as not committed, and no claim is judged by it
  seeds=N           seeds of each model (default: as the preset says)
  strict=true       exit code 3 if a claim is contradicted
  records=FOLDER    run nothing: draw and judge the records of this preset below FOLDER
  workers=N         worker processes (default: one for each CPU core or GPU here; for less than
                    ten runs at smoke 0: they are made in this process)
  executor=ray      the runs are made on a Ray cluster, as bench.sweep has it; storage= too
  committed=false   make every run here (default true: the project's own records are served, and
                    nothing is trained for them)
  store=FOLDER      where runs, figures and verdicts go (default runs)
  dry_run=true      count the runs, estimate the time as if there were no record yet, and say how
                    many have none; nothing is run or written; device_like=NAME: of a sweep's runs
                    on that device
  any other word    is passed on to every run, such as training.steps=50 or device=cpu; settings of
                    the task also without "tasks.", such as corpus=local stories=PATH wiki=PATH

A claim is "reproduced", "contradicted" or has "not enough evidence"; a failed run is shown.
example: python -m reproduce figure5 preset=smoke"""

VERDICTS = """\
usage: python -m reproduce verdicts [update=true]

Which files of leaderboards/verdicts are not what the committed records give today: of each changed
verdict the old one, the new one and its evidence. Exit code 4 if there is any. A verdict may also
have changed because a model contends that has no records: its claims speak of every contender.

  update=true   write them; nothing is written if one cannot be judged. Read why they change first,
                and build the board afterwards: python -m leaderboards.build; then its pages:
                python -m leaderboards.readme

The first verdict file of a figure is made by its own command: python -m reproduce NAME."""

SAME = """\
usage: python -m reproduce same commit=COMMIT [update=true]

Whether all claims and figures say what they said at a commit, of the same committed records:
every verdict, number and sentence at several levels, every panel and table, by all records and by
parts of them. Exit code 4 if something differs.

  update=true   keep in reproduce/claims/restated_tests.yaml which tests have another form and judge
                as before, so that their claims stay set when they were

example: python -m reproduce same commit=HEAD~1"""

UNTRAINED = """\
usage: python -m reproduce untrained tasks=TASK [key=value ...]

For each final run that a sweep would make the same network after one step: what a model scores that
has learned nothing. A figure makes these for its claims; this is for rows that no claim is about.
What was searched stays at the first value of its grid.

  any word of bench.sweep   such as "models=[gla,h3]", preset=laptop, sweep.seeds=5, workers=2,
                            store=FOLDER

example: python -m reproduce untrained tasks=regbench models=gpt2 preset=smoke"""
