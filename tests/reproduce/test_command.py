"""``python -m reproduce`` as a user meets it."""

import json
from pathlib import Path

import pytest

from bench.records.schema import make_run_id, write_record
from core.errors import CLAIM_CONTRADICTED, OK, RUN_FAILED, UserError
from leaderboards.tables.verdicts import read_verdicts
from reproduce.__main__ import reproductions
from reproduce.command import main
from reproduce.drawing.frame import View
from reproduce.planned import sweep_names
from reproduce.plotting.panels import Picture
from reproduce.stories import table2
from tests.reproduce.records import moons, ngram, regbench

FIGURES = reproductions()
FILES = ["curves.json", "figure.png", "figure.svg", "records.txt", "verdicts.json"]


def fill(folder: Path, steps: bool = True, outcome: str = "ok") -> Path:
    """Six networks, and their untrained runs."""
    for seed in range(6):
        run = moons(seed, 3, steps, outcome)
        write_record(run, folder)
        untrained = moons(seed, 3, False)
        config = {**run.config, "training": {"restarts": 1, "steps": 1}}
        twin = {"config": config, "role": "control", "run_id": f"untrained-{seed}"}
        write_record(untrained.model_copy(update=twin), folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_listing_is_complete_and_loads_neither_torch_nor_matplotlib(run_command) -> None:
    script = (
        "import sys; from reproduce.command import main; "
        "from reproduce.__main__ import reproductions; main([], reproductions()); "
        "assert not {'torch', 'matplotlib', 'lightning'} & set(sys.modules)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
    for name in ("figure4", "figure5", "figure9", "figure10", "table3"):
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("words", ["--help", "evidence --help"])
def test_help_imports_nothing_heavy(run_command, words: str) -> None:
    script = (
        f"import sys; from reproduce.__main__ import main; assert main({words.split()!r}) == 0; "
        "assert not {'numpy', 'pydantic', 'hydra', 'rich'} & set(sys.modules)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
    assert f"usage: python -m reproduce {words[:-7]}" in done.stdout


def test_records_are_enough_and_need_no_torch(run_command, tmp_path: Path) -> None:
    fill(tmp_path / "records")
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path / 'store'}"]
    script = (
        "import sys; from reproduce.command import main; "
        "from reproduce.__main__ import reproductions; "
        f"code = main({words!r}, reproductions()); "
        "assert not {'torch', 'lightning'} & set(sys.modules); sys.exit(code)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
    assert "reproduced  The three-head network predicts well" in done.stdout
    folder = tmp_path / "store" / "reproductions" / "figure5" / "smoke"
    assert sorted(contents(folder)) == FILES
    # In this process, in another folder: the same bytes.
    assert main([*words[:2], f"store={tmp_path / 'again'}"], FIGURES) == OK
    assert contents(tmp_path / "again" / "reproductions" / "figure5" / "smoke") == contents(folder)


def test_verdict_file_is_what_the_board_reads(tmp_path: Path) -> None:
    fill(tmp_path / "records")
    main(["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"], FIGURES)
    folder = tmp_path / "reproductions" / "figure5" / "smoke"
    [file] = read_verdicts([folder / "verdicts.json"])
    assert (file.figure, file.preset) == ("figure5", "smoke")
    assert file.records == (folder / "records.txt").read_text().split()
    assert {claim.verdict for claim in file.claims} == {"reproduced"}
    assert {claim.seeds for claim in file.claims} == {6}
    shown = Picture.read(folder / "curves.json").panels[0]
    assert len([trace for trace in shown.traces if trace.name.startswith("seed ")]) == 6


def test_contradicted_is_a_result_unless_strict(tmp_path: Path, capsys) -> None:
    fill(tmp_path / "records", steps=False)
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, FIGURES) == OK
    assert "contradicted  " in capsys.readouterr().out
    assert main([*words, "strict=true"], FIGURES) == CLAIM_CONTRADICTED


def test_nothing_but_failures_is_a_failure_and_is_written_all_the_same(
    tmp_path: Path, capsys
) -> None:
    fill(tmp_path / "records", outcome="diverged")
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, FIGURES) == RUN_FAILED
    assert "6 of 6 runs gave no result" in capsys.readouterr().out
    assert (tmp_path / "reproductions" / "figure5" / "smoke" / "verdicts.json").exists()


def test_records_of_another_preset_or_task_are_not_mixed_in(tmp_path: Path) -> None:
    fill(tmp_path / "records")
    write_record(moons(9, 3, steps=False, preset="laptop"), tmp_path / "records")
    write_record(moons(8, 1, steps=False), tmp_path / "records")
    main(["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"], FIGURES)
    used = (tmp_path / "reproductions" / "figure5" / "smoke" / "records.txt").read_text().split()
    assert len(used) == 6


@pytest.mark.parametrize("seed", [0, 7])  # of a run again, and of one more run
def test_runs_of_two_settings_are_never_one_sample(tmp_path: Path, seed: int) -> None:
    fill(tmp_path)
    used, other = moons(0, 3, steps=True), moons(seed, 3, steps=False, identity="ab" * 32)
    write_record(other, tmp_path)
    with pytest.raises(UserError, match="keep the records of one") as error:
        main(["figure5", f"records={tmp_path}", f"store={tmp_path / 'store'}"], FIGURES)
    assert used.run_id.removesuffix("s0") in str(error.value)
    assert other.run_id in str(error.value)


def test_predictors_of_two_settings_are_refused_by_name_and_sizes_are_told_apart(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "records"
    words = ["figure9", f"records={folder}", f"store={tmp_path / 'store'}"]
    run, predictor = regbench("gpt2", 0, 500, 0.5, 0.5), ngram(2, 0.8, 0.3)
    elsewhere = regbench("gpt2", 0, 100, 0.5, 0.5)
    for record in (run, predictor, elsewhere):
        write_record(record, folder)
    assert main(words, FIGURES) == OK
    identity = "cd" * 32
    run_id = make_run_id("regbench", "2_gram", "smoke", identity, 0)
    other = predictor.model_copy(update={"identity": identity, "run_id": run_id})
    write_record(other, folder)
    with pytest.raises(UserError, match="2-gram") as error:
        main(words, FIGURES)
    assert predictor.run_id in str(error.value)
    assert run_id in str(error.value)


@pytest.mark.parametrize("shown", [[[1, 2, 3]], []])
def test_a_figure_without_a_trained_system_is_refused_before_anything_is_run(
    tmp_path: Path, shown: list[list[float]]
) -> None:
    with pytest.raises(UserError, match="no system that the network is trained on"):
        main(["figure5", f"tasks.display_systems={shown}", f"store={tmp_path / 'a'}"], FIGURES)
    assert not (tmp_path / "a").exists()
    run = moons(0, 3, steps=True)
    task = {**run.config["tasks"], "display_systems": shown}
    changed = run.model_copy(update={"config": {**run.config, "tasks": task}})
    write_record(changed, tmp_path)
    with pytest.raises(UserError, match="no system that the network is trained on"):
        main(["figure5", f"records={tmp_path}", f"store={tmp_path}"], FIGURES)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["figure55"], "there is no reproduction 'figure55': did you mean 'figure5'?"),
        (["figure5", "preset=smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["figure5", "seed=3"], "'seed=3' cannot be chosen here"),
        (["figure9", "sweep.seeds=5"], "seeds=N sets how many"),
        (["figure5", "models=gpt2"], "'models=gpt2' cannot be chosen here"),
        (["figure5", "seeds=0"], "at least one seed is needed"),
        (["figure5", "seeds=true"], "seeds=True is not a number of seeds"),
        (["figure5", "strict=perhaps"], "strict=perhaps is neither true nor false"),
        (["figure5", "records=/nowhere"], "there is no folder /nowhere"),
        (
            ["figure5", "records=.", "seeds=3"],
            "'seeds=3' is about runs, but records=… runs nothing",
        ),
        (["figure5", "training.stepz=3"], "here: the nearest is 'training.steps'"),
        (["figure5", "dryrun=true"], "there is no setting 'dryrun' here: the nearest is 'dry_run'"),
        (["table2", "sweep.search_space={training.lr:[1e-3]}"], "no setting 'sweep.search_space'"),
        (["figure9", "lr=3"], "there is no setting 'lr' here: the nearest is 'training.lr'"),
        (
            ["figure8", "corpus=local", "stories=/nowhere.txt", "dry_run=true"],
            "'stories=/nowhere.txt': there is no file or folder /nowhere.txt",
        ),
        (["figure5", "dry_run=perhaps"], "dry_run=perhaps is neither true nor false"),
        (["figure5", "records=.", "dry_run=true"], "'dry_run=true' is about runs"),
        (["table4", "models.layers=1"], " or reproduce table5"),
    ],
)
def test_mistakes_get_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        main([*words, f"store={tmp_path}"], FIGURES)
    assert sentence in str(error.value)
    assert len(str(error.value)) < 160 + len(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "word", "key"),
    [
        *((name, "models.layers=3", "models.layers") for name in ("figure7", "figure13", "table5")),
        *((f"figure{k}", "models.layers=2", "models.layers") for k in (14, 15, 16)),
        *((f"figure{k}", "models.positions=rope", "models.positions") for k in (14, 15)),
        *(("table2", f"{key}=1", key) for key in table2.VARIED),
        ("figure9", "training_automata=100", "tasks.training_automata"),
        ("table3", "tasks.variant=iid", "tasks.variant"),
        ("figure9", "protocol=as_released", "tasks.protocol"),
        *((name, "models.heads=2", "models.heads") for name in ("figure4", "figure5", "figure10")),
    ],
)
def test_what_a_figure_sets_itself_is_refused_before_any_run(
    name: str, word: str, key: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        main([name, word, f"store={tmp_path / 'store'}"], FIGURES)
    assert f"'{word}' cannot be chosen here: {name} sets {key} itself" in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["figure7", "training.steps=20", "models.heads=4"],
        ["figure14", "training.steps=20", "models.heads=4"],
        ["table4", "models.layers=3"],
        ["table2", "training.batch_size=2"],
    ],
)
def test_what_a_figure_does_not_set_can_be_chosen(
    words: list[str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("bench.search.estimate._probe", lambda configuration: (7, 2.0, 0.5))
    assert main([*words, f"store={tmp_path}", "dry_run=true"], FIGURES) == OK


def test_a_word_that_is_far_from_all_gets_one_short_sentence(tmp_path: Path) -> None:
    for name in ("figure4", "figure10", "table3"):
        with pytest.raises(UserError, match="there is no setting 'foo' here: the nearest") as error:
            main([name, "foo=1", f"store={tmp_path}"], FIGURES)
        assert len(str(error.value)) < 90


def test_dry_run_counts_and_writes_nothing(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("bench.search.estimate._probe", lambda configuration: (7, 2.0, 0.5))
    words = [f"store={tmp_path / 'store'}", "dry_run=true", "training.steps=30", "seeds=4"]
    words.append("workers=1")
    assert main(["figure10", *words, "training.restarts=2", "device_like=h100"], FIGURES) == OK
    assert "4 runs of " in (shown := capsys.readouterr().out)
    assert "as if there were no record yet; nothing was written" in shown
    assert "30 steps from each of 2 starts: 240 steps" in shown
    assert "time: about 2 min of training alone" in shown  # half a second each
    assert "device_like=h100 is for sweeps, and this figure has none" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_dry_run_names_models_and_an_endless_warmup_once(tmp_path: Path, capsys) -> None:
    words = [f"store={tmp_path / 'store'}", "dry_run=true", "seeds=2"]
    assert main(["figure7", *words, "training.steps=20"], FIGURES) == OK
    shown = capsys.readouterr()
    assert "runs of Memory Mosaic and " in shown.out
    assert shown.err.count("warmup_steps=30 of 20 steps: the learning rate never reaches") == 1
    assert main(["figure7", *words, "training.steps=20", "training.warmup_steps=2"], FIGURES) == OK
    assert "warmup" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_dry_run_of_sweeps_estimates_each(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("bench.search.estimate._probe", lambda configuration: (7, 2.0, 0.5))
    words = [f"store={tmp_path / 'store'}", "dry_run=true", "training.steps=30", "seeds=4"]
    words.append("workers=1")
    assert main(["figure9", *words], FIGURES) == OK
    shown = capsys.readouterr().out
    for size in (100, 500):
        assert f"tasks.training_automata={size}" in shown
    totals = [line.split() for line in shown.splitlines() if line.startswith("│ all")]
    assert [line[3:6:2] for line in totals] == [["10", "30"]] * 2  # 5 models, 2 trials, 4 seeds
    # 5 x 5 trainings of 30 steps of half a second (375 s): the first final run is a trial's.
    assert [line[-3:-1] for line in totals] == [["6", "min"]] * 2
    assert list(tmp_path.iterdir()) == []


def test_rules_are_told_once_and_what_a_preset_leaves_out_in_one_line(
    tmp_path: Path, capsys
) -> None:
    models = ["memory_mosaic", "gpt2", "mamba", "s4d", "lstm"]
    for place, model in enumerate(models):
        for seed in range(3):
            far = 0.01 * seed
            levels = (0.9 - far, 0.1 + far) if not place else (0.5 - far, 0.4 + far)
            for size in (100, 500):
                run = regbench(model, seed, size, *levels)
                write_record(run, tmp_path)
                config = {**run.config, "training": {"restarts": 1, "steps": 1}}
                changes = {"config": config, "role": "control", "run_id": f"untrained-{run.run_id}"}
                untrained = regbench(model, seed, size, 0.2 + far, 0.9 - far)
                write_record(untrained.model_copy(update=changes), tmp_path)
    small = {"string_length": [1, 19]}
    for order in (2, 3):
        write_record(ngram(order, 0.8, 0.3, **small), tmp_path)
    main(["figure9", f"records={tmp_path}", f"store={tmp_path / 'store'}"], FIGURES)
    shown = capsys.readouterr().out
    assert shown.count("counts as reproduced") == 1
    both = "not asked here: N = 1,000, 2,500; n-gram levels; preset=laptop asks it, with "
    assert both in shown
    assert "not asked here: N = 40,000; preset=paper asks it, with " in shown
    total = "4 reproduced, 0 contradicted, 0 not enough evidence (8 not asked here)"
    assert total in shown.splitlines()
    folder = tmp_path / "store" / "reproductions" / "figure9" / "smoke"
    assert f"open {folder / 'figure.png'}" in shown
    word = f"store={tmp_path / 'store'}"
    way = f"python -m leaderboards.build {word}, then python -m leaderboards.serve {word}"
    assert f"on the leaderboard: {way}" in shown
    assert len(json.loads((folder / "verdicts.json").read_bytes())["claims"]) == 12


def test_of_a_key_that_is_given_twice_the_last_counts(tmp_path: Path, capsys) -> None:
    words = ["figure10", f"store={tmp_path}", "dry_run=true", "seeds=3", "training.restarts=1"]
    assert main([*words, "training.steps=9", "training.steps=5", "seeds=2"], FIGURES) == OK
    assert "2 runs of " in (shown := capsys.readouterr().out)
    assert "5 steps: 10 steps" in shown


def test_an_empty_folder_of_records_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave records=… out to make the runs"):
        main(["figure5", f"records={tmp_path}", f"store={tmp_path}"], FIGURES)


def test_changed_settings_are_named_and_have_a_folder_of_their_own() -> None:
    view = View("smoke", ("training.lr=0.1", "training.steps=5"))
    assert view.name == "smoke training.lr=0.1 training.steps=5"
    assert view.folder == "smoke+training.lr=0.1+training.steps=5"
    assert "/" not in View("smoke", ("models.a=x/../y",)).folder


@pytest.mark.long
def test_runs_are_made_once(tmp_path: Path, capsys) -> None:
    words = [
        "figure5",
        "preset=smoke",
        "seeds=2",
        "training.steps=3",
        "training.restarts=1",
        "tasks.sequences=2",
        "tasks.contexts_every=30",
        f"store={tmp_path}",
    ]
    # Worker processes, like the device and the tracking, change no result and are not in the name.
    assert main([*words, "workers=2", "device=cpu", "tracking=none"], FIGURES) == OK
    said = capsys.readouterr().out
    assert "not enough evidence  " in said or "contradicted  " in said
    [folder] = (tmp_path / "reproductions" / "figure5").iterdir()
    assert sorted(contents(folder)) == FILES
    records = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert len(records) == 2 + 4  # networks, and predictors without training
    before = contents(folder)
    assert main(words, FIGURES) == OK
    assert list(folder.parent.iterdir()) == [folder]
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert after == records
    assert contents(folder) == before
    preset = json.loads(before["verdicts.json"])["preset"]
    assert preset.startswith("smoke tasks.contexts_every=30 ")
    assert _left(words, capsys).startswith("every run that this figure needs has a record of the ")
    next(path for path in records if path.name.endswith("-s1.json")).unlink()
    assert _left(words, capsys).startswith("1 of the 5 runs of this figure has no record of the ")
    left = _left([*words, "seeds=3"], capsys)
    assert ": 2 × run, 1 × control without training; 4 have one: 1 × run, 2 × control" in left
    assert left.endswith(". What these alone take: " + HOW_LONG)
    nobody = ["figure5", f"store={tmp_path / 'none'}", "committed=false"]  # its defaults neither
    assert "21 of the 21 runs of this figure have no record of your own" in _left(nobody, capsys)
    assert "has a record of the project" in _left(nobody[:2], capsys)


HOW_LONG = "python -m reproduce evidence preset=smoke dry_run=true"


def _left(words: list[str], capsys) -> str:
    """The last line of a dry run."""
    capsys.readouterr()
    assert main([*words, "dry_run=true"], FIGURES) == OK
    return capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu"])
def test_no_two_sweeps_of_a_plan_are_called_alike(preset):
    """The dry run shows them by these names."""
    for name, reproduction in FIGURES.items():
        sweeps = reproduction.plan(preset, None).sweeps
        assert len({*sweep_names(sweeps)}) == len(sweeps), name
