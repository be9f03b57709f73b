"""Forged searches: what each changes in the study of an honest record, and what the refusal has to
name."""

from tests.leaderboards.forging.changes import (
    TRAINED,
    Forgery,
    best_trial,
    chosen_over,
    invented_trials,
    only_the_chosen,
    put,
    several,
    trials,
)

OVER_SEEDS = "wikipedia/laptop/wikipedia-gpt2-laptop-*-s1"

SEARCHES = {
    "a study that was cut": Forgery(
        TRAINED,
        several(put("study.trials", lambda t: t[:1]), put("cost.tuning_trials", 1)),
        "study",
    ),
    "a study in which another was best": Forgery(TRAINED, best_trial, "best one of its study"),
    "a study of a run that no search chose": Forgery(
        TRAINED, put("role", "single"), "its role is single, and it has a study"
    ),
    "a study of another name": Forgery(TRAINED, put("study.name", "<b>mine</b>"), "its study is"),
    "two trials of one number": Forgery(TRAINED, trials(number=0), "two trials"),
    "trials outside their search space": Forgery(
        TRAINED,
        several(put("config.training.lr", 0.7), trials(parameters={"training.lr": 0.7})),
        "outside its search_space",
        True,
    ),
    "a trial better than can be": Forgery(TRAINED, trials(value=5.0), "the value 5"),
    "a number of a trial that failed": Forgery(TRAINED, trials(outcome="failed"), "failed"),
    "a trial of another run": Forgery(
        TRAINED, trials(run_id="hello"), "of the run 'hello', which is none of its"
    ),
    "a trial that ended well without a value": Forgery(
        TRAINED, trials(value=None), "without a value, and it ended ok"
    ),
    "a search by the test split": Forgery(
        TRAINED, put("study.selected_by", "accuracy on the test split"), "is selected by"
    ),
    "a sampler that there is not": Forgery(
        TRAINED, put("study.sampler", "an oracle's guess"), "there is no sampler"
    ),
    "more trials than its grid has settings": Forgery(
        TRAINED, invented_trials, "two trials of one setting"
    ),
    "a search of which the losers were left out": Forgery(
        TRAINED, only_the_chosen, "other settings than the first 1 of its sampler"
    ),
    "a setting that was chosen by one seed": Forgery(
        OVER_SEEDS, chosen_over(lambda old: []), "had not trained with all seeds"
    ),
    "a mean over fewer seeds than its rivals'": Forgery(
        OVER_SEEDS, chosen_over(lambda old: old[:2]), "over other seeds than its own"
    ),
}
