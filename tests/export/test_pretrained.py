"""Exports of every objective answer with their network's numbers."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.objectives import registry
from tests.export import conftest
from tests.export.conftest import as_ids
from tests.export.conftest import encode

# The last token of the first row is [MASK], which may stand in rows of ids.
ROWS = [[2, 5, 6, 7, 8, 4, 3], [2, 9, 11, 3], [2, 3]]
TEXTS = (
    "The cat sat on the mat.", "", "Unaffable  cats, in a CAFÉ… 東京!",
    "returns the number of items",
)  # fmt: skip
FEATURES = {"features_text", "features_ids"}
SCORES = FEATURES | {"score_text", "score_ids"}
OFFERED = dict.fromkeys(registry.NAMES, SCORES) | {
    "mlm": FEATURES | {"predict_ids"},
    "replace_mlm": FEATURES | {"predict_ids"},
    "electric": FEATURES | {"likelihood_text", "likelihood_ids"},
}
# Exported too; the others are asked in memory.
EXPORTED = ("electra", "electric", "mlm")


@pytest.fixture(scope="module", params=EXPORTED)
def export(request, objective_exports):
    return objective_exports(request.param)


def keras_answers(main, name, inputs):
    """The answers of an objective's network, where there is a token."""
    rows = {name: tf.constant(value) for name, value in inputs.items()}
    encoded = main.encoder(*rows.values())
    if name in ("mlm", "replace_mlm"):
        table = main.encoder.embeddings.word_embeddings
        logits = main.head(encoded.sequence_output, table)
        probabilities = tf.nn.softmax(logits).numpy()
        order = np.argsort(-probabilities, axis=-1, kind="stable")[..., :5]
        best = np.take_along_axis(probabilities, order, -1)
        answers = {"top_ids": order, "top_probabilities": best}
    elif name == "electric":
        logits = main(*rows.values()).logits
        answers = {"token_log_likelihood": -logits.numpy()}
    elif name == "all_tokens_mlm":
        copied = tf.sigmoid(main(*rows.values()).copy_logits)
        answers = {"replaced_probability": 1 - copied.numpy()}
    else:
        replaced = tf.sigmoid(main(*rows.values()).logits)
        answers = {"replaced_probability": replaced.numpy()}
    return answers | {"token_features": encoded.sequence_output.numpy()}


def check_answers(trained, call, signatures):
    """Fails unless a run, or its export, has its network's numbers."""
    assert {*signatures} == OFFERED[trained.objective]
    inputs = as_ids(ROWS)
    is_token = inputs["input_mask"] == 1
    is_word = is_token & ~np.isin(inputs["input_ids"], [2, 3, 4])
    expected = keras_answers(trained.main, trained.objective, inputs)
    answers = {}
    for name in signatures:
        if name.endswith("_ids"):
            answers |= call(name, **inputs)
    for name, values in expected.items():
        where = is_word if name == "token_log_likelihood" else is_token
        assert np.ptp(values[where]) > 0.02, name
        np.testing.assert_allclose(
            answers[name][where], values[where], atol=1e-5, err_msg=name
        )


def test_export_gives_the_numbers_of_the_trained_network(export):
    names = set(export.call.signatures) - {"serving_default"}
    check_answers(export, export.call, names)


@pytest.mark.parametrize("name", sorted({*registry.NAMES} - {*EXPORTED}))
def test_a_run_of_any_objective_has_its_networks_numbers(name, objective_runs):
    run = objective_runs(name)
    check_answers(run, run.call.run, run.call.signature_names)


def test_padding_and_other_rows_change_no_answer(export):
    for name in export.call.signatures:
        if not name.endswith("_ids"):
            continue
        together = export.call(name, **as_ids(ROWS, 16))
        for number, row in enumerate(ROWS):
            alone = export.call(name, **as_ids([row]))
            for key, value in alone.items():
                found = together[key][number]
                if "S" in export_metadata.TENSORS[key].shape:
                    padding = export_metadata.PADDING.get(key, 0)
                    assert (found[len(row) :] == padding).all(), key
                    found = found[: len(row)]
                conftest.assert_close({key: found}, {key: value[0]})


def test_text_is_answered_like_its_ids(export):
    offered = OFFERED[export.objective]
    name = sorted(name for name in offered if name.endswith("_text"))[-1]
    text = export.call(name, texts=encode(*TEXTS))
    ids = export.call(
        name.replace("_text", "_ids"),
        input_ids=text["input_ids"],
        input_mask=text["input_mask"],
        segment_ids=np.zeros_like(text["input_ids"]),
    )
    np.testing.assert_array_equal(text["num_tokens"], [9, 2, 15, 7])
    shared = ids.keys() & text.keys()
    assert shared
    conftest.assert_close(*({k: d[k] for k in shared} for d in (text, ids)))


def test_saved_weights_are_the_main_networks_alone(export):
    saved = tf.train.list_variables(str(export.folder / "variables/variables"))
    found = [math.prod(s) for name, s in saved if "model_variables" in name]
    # Vectors are constants of the graph.
    assert sum(found) == sum(
        math.prod(v.shape) for v in export.main.variables if len(v.shape) > 1
    )


def test_invalid_utf8_is_dropped_and_offsets_stay_in_the_input(loaded):
    data = b"the \xffcat\xc3 sat \xe6\x9d"
    rows = loaded("score_text", texts=encode(data, "the cat sat"))
    np.testing.assert_array_equal(rows["input_ids"][0], rows["input_ids"][1])
    for name in ("word_starts", "word_ends"):
        assert (rows[name][0] == -1).tolist() == [True, *[False] * 3, True]
    spans = zip(rows["word_starts"][0], rows["word_ends"][0], strict=True)
    words = [data[start:end] for start, end in spans if start >= 0]
    shown = [word.decode("ascii", "ignore").strip() for word in words]
    assert shown == ["the", "cat", "sat"]


def test_ids_that_cannot_be_are_refused(loaded):
    for change, message in (
        ({"input_ids": np.full([1, 5], 500)}, "input_ids"),
        ({"input_ids": np.full([1, 5], -9)}, "input_ids"),
        ({"segment_ids": np.full([1, 5], 2)}, "segment_ids"),
        ({"input_mask": np.full([1, 5], 2)}, "input_mask"),
        ({"input_mask": np.ones([1, 2])}, "`input_mask` must have the shape"),
        (as_ids([[2] * 25]), "24 positions"),
    ):
        ids = as_ids([[2, 5, 7, 8, 3]]) | change
        ids = {name: np.int32(rows) for name, rows in ids.items()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            loaded("score_ids", **ids)
