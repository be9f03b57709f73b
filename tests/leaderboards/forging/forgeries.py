"""Forged records: what each changes in an honest one, and what the refusal has to name."""

from bench.config.questions import ALWAYS
from tests.leaderboards.forging.changes import (
    TRAINED,
    Forgery,
    better,
    drop,
    headline,
    libraries,
    put,
    several,
    unstudied,
    without_items,
)
from tests.leaderboards.forging.forged_curves import CURVES
from tests.leaderboards.forging.forged_searches import SEARCHES

MEASURED = "test_time_memory/laptop/test_time_memory-kernel-laptop-*-s1"
PREDICTOR = "regbench/*/regbench-3_gram-*-s0"
RESTARTED = "three_moons/laptop/three_moons-*-laptop-*-s1"
BY_SIZE = "learned_embeddings/*/*-s0"
ASKED = "memory_in_the_loop/laptop/memory_in_the_loop-kernel-*-s0"
BY_TRIAL = "capacity/laptop/capacity-kernel-laptop-*-s0"
BY_LEMMA = "gradient_memory/laptop/*-s0"
BY_DIMENSION = "scaling_laws/laptop/scaling_laws-outer_product-*-s0"
BY_DISTANCE = "attention/smoke/attention-gpt2-smoke-*-s0"
REGRESSED = "in_context_regression/laptop/in_context_regression-gpt2-laptop-*-s1"
GUESS = "multi_query_recall/laptop/multi_query_recall-uniform_over_values-*-s0"
LEARNED = "learned_embeddings/laptop/*-s0"
A, B = "a" * 64, "b" * 64
PASSED = [*ALWAYS, "causal by gradients"]

FORGERIES = {
    "accuracy 42": Forgery(TRAINED, headline(42.0), "metrics.test.accuracy is 42"),
    "accuracy -0.1": Forgery(TRAINED, headline(-0.1, items=True), "accuracy is -0.1, and no share"),
    "an item of 7": Forgery(
        TRAINED, put("per_sequence.accuracy", lambda old: [7.0, *old[1:]]), "per_sequence.accuracy"
    ),
    "headline unequal to its metric": Forgery(TRAINED, put("headline.value", 0.99), "headline.val"),
    "metric unequal to the headline": Forgery(
        TRAINED, put("metrics.test.accuracy", 0.99), "headline.value"
    ),
    "no test metrics": Forgery(TRAINED, drop("metrics.test"), "headline.value"),
    "headline that its items do not give": Forgery(TRAINED, headline(0.999), "the mean of per_seq"),
    "a metric that its task always has": Forgery(
        TRAINED, drop("metrics.test.tvd"), "no metrics.test.tvd"
    ),
    "no items": Forgery(TRAINED, put("per_sequence", {}), "no per_sequence.accuracy"),
    "another number of items": Forgery(
        TRAINED, put("per_sequence.tvd", lambda old: old[:-1]), "per_sequence.tvd has 99 items"
    ),
    "more sequences than have items": Forgery(
        TRAINED, put("config.tasks.test_size", 9999), "its tasks.test_size 9999", identified=True
    ),
    "validated at other steps": Forgery(
        TRAINED,
        put("config.training.validate_every", 7),
        "is not of every 7 steps",
        identified=True,
    ),
    "a curve of validations that leaves some out": Forgery(
        TRAINED,
        put("curves.validation_loss", lambda old: {axis: old[axis][-2:] for axis in old}),
        "is not of every",
    ),
    "without validations": Forgery(TRAINED, drop("curves.validation_loss"), "is not of every"),
    "a curve that goes back": Forgery(
        TRAINED,
        put("curves.validation_loss.x", lambda old: [*old[:-2], old[-1], old[-2]]),
        "goes back in time",
    ),
    "a curve from before the start": Forgery(
        TRAINED, put("curves.training_loss.x", lambda old: [-3.0, *old[1:]]), "begins before step 0"
    ),
    "started in the year 2099": Forgery(
        TRAINED, put("provenance.started_at", "2099-01-01T00:00:00+00:00"), "or to come"
    ),
    "started in the year 1970": Forgery(
        TRAINED, put("provenance.started_at", "1970-01-01T00:00:00+00:00"), "before this program"
    ),
    "a Python that its libraries are not of": Forgery(
        TRAINED, put("provenance.python", "3.99.1"), "provenance.python is not that"
    ),
    "trained in no time": Forgery(
        TRAINED, put("cost.wall_seconds", 1e-9), "cost.wall_seconds is 1e-09"
    ),
    "trained for an age": Forgery(
        TRAINED, put("cost.wall_seconds", 1e29), "cost.wall_seconds is 1e+29"
    ),
    "stacked with nothing": Forgery(TRAINED, put("cost.stacked", 0), "cost.stacked is less"),
    "headline that its curve does not end in": Forgery(
        BY_SIZE,
        several(put("headline.value", 0.001), put("metrics.test.error", 0.001)),
        "the last of curves.error",
    ),
    "another headline": Forgery(
        TRAINED, several(put("headline.name", "token_accuracy")), "headline.name"
    ),
    "flipped direction": Forgery(
        TRAINED, put("headline.direction", "minimise"), "headline.direction"
    ),
    "an unknown metric": Forgery(
        TRAINED, put("metrics.test.brilliance", 1.0), "brilliance' is a metric"
    ),
    "a metric in other letters": Forgery(
        TRAINED, put("metrics.test.accurасy", 1.0), r"metric that the task's card"
    ),
    "a third split": Forgery(TRAINED, put("metrics.extra", {"accuracy": 1.0}), "another split"),
    "identity hello": Forgery(TRAINED, put("identity", "hello"), "its identity is not"),
    "run id unrelated to identity": Forgery(
        TRAINED, put("run_id", "regbench-gpt2-laptop-000000000000-s1"), "its run_id is not"
    ),
    "another preset": Forgery(TRAINED, put("preset", "paper"), "its identity is not"),
    "preset galactic": Forgery(TRAINED, put("preset", "galactic"), "preset 'galactic'", True),
    "unknown task": Forgery(
        TRAINED, put("task", "regbenсh2"), r"the task 'regben\u0441h2' cannot be a file name"
    ),
    "unknown task in letters of ours": Forgery(
        TRAINED, put("task", "regbench2"), "its task 'regbench2' is unknown here", True
    ),
    "unknown model of ours": Forgery(TRAINED, put("model", "gpt5"), "label", True),
    "a config without its identity": Forgery(
        TRAINED, put("config.training.lr", 0.5), "its identity is not"
    ),
    "a config that its study did not choose": Forgery(
        TRAINED, put("config.training.lr", 0.5), "best one of its study", True
    ),
    "a setting that no model has": Forgery(
        TRAINED, put("config.models.magic", 1), "models.'magic'", True
    ),
    "the class of another model": Forgery(
        TRAINED, put("config.models._target_", "models.lstm.LSTM"), "_target_", True
    ),
    "a class of another package": Forgery(
        TRAINED, put("config.models._target_", "evil.GPT2"), "_target_", True
    ),
    "a place": Forgery(
        MEASURED, put("config.tasks.endpoint", "http://x"), "tasks.'endpoint'", True
    ),
    "steps as text": Forgery(TRAINED, put("config.training.steps", "many"), "training", True),
    "steps as digits in text": Forgery(
        TRAINED, put("config.training.steps", lambda old: str(old)), "training", True
    ),
    "no training": Forgery(TRAINED, put("config.training", []), "config"),
    "null weights": Forgery(TRAINED, put("weights_sha256", None), "weights_sha256 is missing"),
    "weights that are no hash": Forgery(TRAINED, put("weights_sha256", "x"), "weights_sha256"),
    "weights of a measurement": Forgery(MEASURED, put("weights_sha256", A), "weights_sha256"),
    "an examination of nothing": Forgery(
        TRAINED, put("examination", {"trained": ["shape"]}), "examination.trained lacks 'numbers'"
    ),
    "an examination of weights alone that skips the future": Forgery(
        TRAINED,
        put(
            "examination",
            {"trained": PASSED, "before": [name for name in PASSED if "causal" not in name]},
        ),
        "examination.before lacks 'causal by values'",
    ),
    "one passed twice": Forgery(
        TRAINED, put("examination", {"trained": [*PASSED, "shape"]}), "names one twice"
    ),
    "an examination that nobody knows": Forgery(
        TRAINED, put("examination", {"trained": [*PASSED, "seen"]}), "examination"
    ),
    "an examined measurement": Forgery(
        MEASURED, put("examination", {"trained": PASSED}), "it has an examination, and no model"
    ),
    "data hashes {}": Forgery(
        TRAINED, put("provenance.data", {}), "data has no hash of the split test", True
    ),
    "no hash of the validation data": Forgery(
        TRAINED, drop("provenance.data.validation"), "no hash of the split validation", True
    ),
    "data that are no hash": Forgery(
        TRAINED, put("provenance.data.test", "easy"), "provenance.data.test", True
    ),
    "other data": Forgery(TRAINED, put("provenance.data.test", A), "provenance.data", True),
    "code that is no hash": Forgery(
        TRAINED, put("provenance.model_code", "x"), "provenance.model_code", True
    ),
    "other code, under the identity": Forgery(
        TRAINED, put("provenance.model_code", A), "its identity is not"
    ),
    "libraries that were not locked": Forgery(TRAINED, libraries, "provenance.library_lock"),
    "precision that was not asked for": Forgery(
        TRAINED, put("provenance.precision", "bfloat16"), "provenance.precision", True
    ),
    "a protocol to come": Forgery(
        TRAINED, put("provenance.protocol_version", 9), "provenance.protocol_version", True
    ),
    "a commit that is none": Forgery(TRAINED, put("provenance.commit", "x"), "provenance.commit"),
    "a time that is none": Forgery(
        TRAINED, put("provenance.started_at", "today"), "provenance.started_at"
    ),
    "negative FLOPs": Forgery(
        TRAINED, put("cost.training_flops", -1.0), "cost.training_flops is negative"
    ),
    "a tenth of the FLOPs": Forgery(
        TRAINED, put("cost.training_flops", lambda old: old / 10), "cost.training_flops"
    ),
    "no FLOPs": Forgery(TRAINED, put("cost.training_flops", None), "cost.training_flops"),
    "half of the parameters": Forgery(
        TRAINED, put("cost.parameters", lambda old: old // 2), "parameters"
    ),
    "another number of steps": Forgery(
        TRAINED, put("cost.training_steps", 10), "cost.training_steps"
    ),
    "no tuning": Forgery(TRAINED, put("cost.tuning_trials", 1), "cost.tuning_trials"),
    "a memory without bytes": Forgery(
        MEASURED, put("cost.state_bytes", 1), "cost.state_bytes is not its"
    ),
    "a measurement that was trained": Forgery(
        MEASURED, put("cost.training_steps", 5), "training_steps"
    ),
    "another start than was kept": Forgery(
        RESTARTED, put("restarts", lambda r: [{**x, "kept": not x["kept"]} for x in r]), "restarts"
    ),
    "a whole number with a point": Forgery(
        TRAINED, unstudied(put("config.models.width", float)), "not how it is written", True
    ),
    "a whole number of the training with a point": Forgery(
        TRAINED, unstudied(put("config.training.batch_size", float)), "not written as", True
    ),
    "a data seed with a point": Forgery(
        TRAINED, unstudied(put("config.tasks.data_seed", float)), "not how it is written", True
    ),
    "a zero with a sign": Forgery(
        TRAINED, unstudied(put("config.models.dropout", -0.0)), "not how it is written", True
    ),
    "numbers as strings": Forgery(TRAINED, headline("0.99"), "headline.value"),
    "a label in other letters": Forgery(
        TRAINED, put("label", "GРT2"), r"its label is 'G\u0420T2', not 'GPT2'"
    ),
    "the label of another model": Forgery(TRAINED, put("label", "Memory Mosaic"), "label"),
    "a predictor that is called like a model": Forgery(
        PREDICTOR,
        several(put("label", "GPT2"), put("model", "gpt2")),
        "'GPT2' is that of a model",
        True,
    ),
    "a predictor in other letters": Forgery(
        PREDICTOR, put("label", "З-gram"), "has letters that look like others", True
    ),
    "a predictor that tells it is trained": Forgery(
        PREDICTOR, put("role", "single"), "config does not hold"
    ),
    "a cause of a run that went well": Forgery(TRAINED, put("cause", "luck"), "ok, and its cause"),
    "a number of a run that failed": Forgery(TRAINED, put("outcome", "diverged"), "outcome"),
    "another unit": Forgery(TRAINED, put("headline.unit", "% of all"), "headline.unit"),
    "a share beyond 1 in a curve": Forgery(
        TRAINED, put("curves.accuracy.y", lambda y: [5.0] * len(y)), "curve 'accuracy'"
    ),
    "FLOPs of nothing": Forgery(
        TRAINED, put("cost.training_flops", 0.0), "cost.training_flops is missing"
    ),
    "a training in no time": Forgery(TRAINED, put("cost.wall_seconds", 0.0), "wall_seconds"),
    "half of the work": Forgery(
        TRAINED,
        several(
            put("cost.training_flops", lambda old: old / 2),
            put("cost.training_tokens", lambda old: old // 2),
        ),
        "cost.training_tokens",
    ),
    "a cause of many lines": Forgery(
        TRAINED,
        several(
            put("outcome", "failed"),
            put("cause", "a\n" * 10),
            put("headline.value", None),
            drop("metrics.test"),
        ),
        "its cause is not",
    ),
    "a curve without a name": Forgery(
        TRAINED, put("curves", lambda old: {**old, "": {"x": [], "y": []}}), "name in curves"
    ),
    "a library of many words": Forgery(
        TRAINED, put("provenance.libraries.torch", "x" * 20_000), "provenance.libraries", True
    ),
    "a time of nowhere": Forgery(
        TRAINED, put("provenance.started_at", "2020-01-01"), "started_at is no time in UTC"
    ),
    "a setting that is left out": Forgery(
        TRAINED, unstudied(drop("config.models.layers")), "no models.layers", True
    ),
    "a setting of the task that is left out": Forgery(
        TRAINED, unstudied(drop("config.tasks.states")), "no tasks.states", True
    ),
    "a predictor that the task does not have": Forgery(
        PREDICTOR, several(put("label", "GPT2 tuned"), put("model", "gpt2_tuned")), "label", True
    ),
    "a predictor with parameters": Forgery(PREDICTOR, put("cost.parameters", 5), "a predictor has"),
    "a predictor that is always right": Forgery(PREDICTOR, headline(1.0), "the mean of per_seq"),
    "a capacity that its trials do not give": Forgery(
        BY_TRIAL, better("associations", 500.0), "the mean of arrays.associations"
    ),
    "a gap that its lemmas do not give": Forgery(
        BY_LEMMA, better("gradient_gap", 1e-11), "the largest of metrics.gap"
    ),
    "an error that no dimension gives": Forgery(
        BY_DIMENSION, better("error", 0.001), "the last of curves.error"
    ),
    "attention that its curve does not give": Forgery(
        BY_DISTANCE, better("first_position", 0.001), "curves.trained_attention"
    ),
    "recall that its curve does not give": Forgery(
        MEASURED, better("recall", 0.999), "the middle of curves.recall_by_count"
    ),
    "a schema that is true": Forgery(TRAINED, put("schema_version", True), "record schema True"),
    "a seed that no run has": Forgery(TRAINED, put("seed", 2**40), "seed", True),
    "a loss curve without its end": Forgery(
        TRAINED,
        put("curves.training_loss", lambda c: {"x": c["x"][:-1], "y": c["y"][:-1]}),
        "training_loss",
    ),
    "a predictor without its items": Forgery(
        PREDICTOR, without_items("accuracy", 0.9999), "no per_sequence.accuracy"
    ),
    "a guess that has no items, without its curve": Forgery(
        GUESS, without_items("accuracy", 0.9999), "by which its accuracy is checked"
    ),
    "a guess that has no items, beside its curve": Forgery(
        GUESS, better("accuracy", 0.9999), "the mean of curves.accuracy_by_pairs"
    ),
    "a curve of positions that the headline is not the mean of": Forgery(
        TRAINED,
        put("curves.accuracy.y", lambda y: [0.999] * len(y)),
        "mean of a beginning of curves.accuracy",
    ),
    "a curve that does not end in its metric": Forgery(
        LEARNED, put("curves.error.y", lambda y: [*y[:-1], y[-1] / 2]), "the last of curves.error"
    ),
    "a loss that is a tenth less than that of its items": Forgery(
        TRAINED, put("metrics.test.loss", lambda old: 0.9 * old), "the mean of per_sequence.loss"
    ),
    "a small number that its items do not give": Forgery(
        REGRESSED,
        put("metrics.test.error_at_end", lambda old: 1.5 * old),
        "the mean of per_sequence.error_at_end",
    ),
    "a curve of validations that ends elsewhere": Forgery(
        TRAINED,
        put("curves.validation_loss.y", lambda y: [*y[:-1], 0.01]),
        "metrics.validation.loss",
    ),
    "a process without memory": Forgery(
        TRAINED, put("cost.peak_memory_bytes", 1), "peak_memory_bytes is 1, in which nothing runs"
    ),
    "a training on a processor in no time": Forgery(
        TRAINED, put("cost.wall_seconds", 1e-5), "which no machine takes"
    ),
    "an accelerator that it was not on": Forgery(
        TRAINED, put("provenance.device_class", "NVIDIA H200"), "not its device_class", True
    ),
    "a headline of another row": Forgery(
        "capacity/laptop/capacity-kernel-laptop-34bf077101e9-s0",
        better("associations", 1915.0),
        "the mean of curves.associations",
    ),
    "a metric that is no point of its curve": Forgery(
        "two_inputs/laptop/two_inputs-mlp-*-s0",
        put("metrics.test", lambda old: {**old, "associations/0.99/16": 768.0}),
        "its curve has",
    ),
    "no numbers of a run that is ok": Forgery(
        TRAINED, several(put("headline.value", None), drop("metrics.test")), "headline.value"
    ),
    "no validation": Forgery(TRAINED, drop("metrics.validation"), "metrics.validation are missing"),
    **CURVES,
    **SEARCHES,
}
