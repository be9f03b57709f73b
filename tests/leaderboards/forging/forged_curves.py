"""Forged metrics beside the honest curves, matrices and items of the same record."""

from tests.leaderboards.forging.changes import Change, Forgery, better, drop, put, several

PROBED = "bigram_probes/laptop/bigram_probes-two_layer_attention-laptop-*-s0"
TRACKING = "state_tracking/laptop/state_tracking-rwkv7-laptop-68ec09857470-s0"  # of S5
MOONS = "three_moons/laptop/three_moons-memory_unit-*-s0"
SCALED = "scaling_laws/laptop/scaling_laws-outer_product-laptop-3153f3d0c96e-s0"
BATTERY = "test_time_memory/laptop/test_time_memory-kernel-laptop-*-s1"


def with_items(metric: str, value: float) -> Change:
    """Another metric, in every item too."""
    items = put(f"per_sequence.{metric}", lambda old: [value] * len(old))
    return several(put(f"metrics.test.{metric}", value), items)


CURVES = {
    "steps to a half that its curve has reached long before": Forgery(
        PROBED,
        put("metrics.test.steps_to_half_output_recall", 202.0),
        "steps_to_half_output_recall is 202.0, and the crossing of 0.5 of curves.output_recall is ",
    ),
    "no steps to a half that its curve reaches": Forgery(
        PROBED,
        drop("metrics.test.steps_to_half_output_recall"),
        "no metrics.test.steps_to_half_output_recall, and the crossing of 0.5 of curves.output_",
    ),
    "right at positions where its curve has chance": Forgery(
        TRACKING,
        with_items("accuracy/4x", 1.0),
        "accuracy/4x is 1.0, and the mean of curves.accuracy_by_position from 33 to 64 is 0.0079",
    ),
    "a curve that leaves out where it is wrong": Forgery(
        TRACKING,
        put("curves.accuracy_by_position", lambda c: {axis: c[axis][:32] for axis in c}),
        "curves.accuracy_by_position is not of all its 64 positions",
    ),
    "without the curve that tells its metrics": Forgery(
        TRACKING, put("curves", {}), "no curves.accuracy_by_position, by which its metrics are"
    ),
    "an error at the end that its curve does not have, with its items": Forgery(
        "in_context_regression/laptop/in_context_regression-gpt2-laptop-*-s1",
        with_items("error_at_end", 0.0),
        "error_at_end is 0.0, and the last of curves.error_by_pairs is",
    ),
    "accuracy at a number of pairs that another curve has at that distance": Forgery(
        "multi_query_recall/laptop/multi_query_recall-gpt2-laptop-*-s0",
        several(
            put("metrics.test.accuracy/4", 0.9),
            put("curves.accuracy_by_distance.y", lambda y: [0.9] * len(y)),
        ),
        "the last of curves.accuracy_by_pairs at 4 is",
    ),
    "accuracy below all that its curve has": Forgery(
        "bigram/laptop/bigram-memory_mosaic-laptop-*-s0",
        several(put("headline.value", 0.9), with_items("in_context_accuracy", 0.9)),
        "the range of curves.in_context_accuracy_by_position is",
    ),
    "an error between the periods that its curve does not have": Forgery(
        MOONS,
        put("metrics.test.error_p1_to_p2/1,2,3", 0.01),
        "error_p1_to_p2/1,2,3 is 0.01, and the mean of curves.error/1,2,3 from ",
    ),
    "an error that falls to a half elsewhere than its curve": Forgery(
        MOONS,
        put("metrics.test.half_error_context/1,2,3", 2.0),
        "the first x at which curves.error/1,2,3 is below half of error_before_max_period",
    ),
    "memories that are disentangled, whose matrices are not": Forgery(
        MOONS, put("metrics.test.disentanglement", 0.123), "the share on one assignment of its"
    ),
    "a loss of a band of positions that its curve does not have": Forgery(
        "wikipedia/laptop/wikipedia-gpt2-laptop-*-s0",
        put("metrics.test.article_loss_51_150", 1.0),
        "the mean of curves.article_loss from 51 to 150 is",
    ),
    "a slope that its errors do not have": Forgery(
        SCALED,
        put("metrics.test.slope_in_d/n=10000", -2.0),
        "the log-log slope of curves.error/n=10000 from",
    ),
    "an error that is the end of another curve": Forgery(
        SCALED,
        lambda content: better("error", content["curves"]["error/d=512"]["y"][-1])(content),
        "the last of curves.error/n=100000 is",
    ),
    "items held that its curve of recall does not tell": Forgery(
        BATTERY, put("metrics.test.items_recalled_most", 9.0), "curves.recall_by_count is"
    ),
    "a part that is called lost, beside its curve": Forgery(
        BATTERY,
        several(
            put("metrics.test.noise_area", 0.123), put("arrays.diverged", ["noise: it diverged"])
        ),
        "noise_area is 0.123, and the mean height of curves.recall_by_noise is",
    ),
    "a half of an error that it does not tell": Forgery(
        MOONS,
        several(
            put("metrics.test.half_error_context/1,2,3", 2.0),
            drop("metrics.test.error_before_max_period/1,2,3"),
        ),
        "no metrics.test.error_before_max_period/1,2,3, and the mean of curves.error/1,2,3 from 5 ",
    ),
    "nothing forgotten, where its matrix tells of it": Forgery(
        BATTERY, put("metrics.test.forgetting", -0.9), "what arrays.forgetting_matrix tells of it"
    ),
}
