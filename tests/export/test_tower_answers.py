"""Every objective is exported and answers with its tower's numbers."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import documentation
from electra_tf.export import signatures
from electra_tf.export.pretrained import tower_answers
from electra_tf.export.pretrained import trained_run
from electra_tf.inputs import masking
from electra_tf.pretraining import model as model_lib
from electra_tf.training import checkpoints
from tests.export import conftest

# The last token of the first row is [MASK], which may stand in rows of ids.
ROWS = [[2, 5, 6, 7, 8, 4, 3], [2, 9, 11, 3], [2, 3]]
TEXTS = ("the cat sat on the mat.", "", "unaffable cats")
FEATURES = {"features_text", "features_ids"}
SCORES = FEATURES | {"score_text", "score_ids"}
OFFERED = {
    "electra": SCORES,
    "electra_15": SCORES,
    "two_stage": SCORES,
    "adversarial": SCORES,
    "mlm": FEATURES | {"predict_ids"},
    "replace_mlm": FEATURES | {"predict_ids"},
    "all_tokens_mlm": SCORES,
    "electric": FEATURES | {"likelihood_text", "likelihood_ids"},
}


# The tests of this folder's other modules export a discriminator, too.
_SLOW = ("electra", "electra_15")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else [])
        for name in sorted(OFFERED)
    ],
)
def export(request, objective_exports):
    return objective_exports(request.param)


def as_ids(rows, length=None):
    """Rows of ids as the three inputs, padded to `length`."""
    length = length or max(map(len, rows))
    mask = np.array([[n < len(row) for n in range(length)] for row in rows])
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = np.concatenate(rows)
    segments = np.cumsum(ids == 6, axis=1).clip(0, 1) * mask
    return {
        "input_ids": ids,
        "input_mask": mask.astype(np.int32),
        "segment_ids": segments.astype(np.int32),
    }


def of_ids(export):
    """Names of the signatures that take ids."""
    return [name for name in export.call.signatures if name.endswith("_ids")]


def keras_answers(export, inputs):
    """The answers of the trained tower, where there is a token."""
    rows = {name: tf.constant(value) for name, value in inputs.items()}
    main, name = export.model.main, export.settings.objective.name
    if name in ("mlm", "replace_mlm"):
        shape = inputs["input_ids"].shape
        everywhere = np.broadcast_to(np.arange(shape[1]), shape)
        output = main(
            masking.MaskedInputs(
                original_ids=None,
                masked_positions=tf.constant(everywhere),
                masked_ids=None,
                masked_weights=None,
                eligible=None,
                **rows,
            )
        )
        probabilities = tf.nn.softmax(output.logits).numpy()
        order = np.argsort(-probabilities, axis=-1, kind="stable")[..., :5]
        best = np.take_along_axis(probabilities, order, -1)
        answers = {"top_ids": order, "top_probabilities": best}
        encoded = output.encoder_outputs[0]
    else:
        output = main(*rows.values())
        encoded = output.encoder_output
        if name == "electric":
            answers = {"token_log_likelihood": -output.logits.numpy()}
        elif name == "all_tokens_mlm":
            replaced = 1 - tf.sigmoid(output.copy_logits).numpy()
            answers = {"replaced_probability": replaced}
        else:
            replaced = tf.sigmoid(output.logits).numpy()
            answers = {"replaced_probability": replaced}
    return answers | {"token_features": encoded.sequence_output.numpy()}


def test_all_objectives_are_covered():
    assert set(model_lib.OBJECTIVES) == set(OFFERED)
    assert set(conftest.OBJECTIVES) == set(OFFERED)


def test_export_offers_what_its_tower_can_say(export):
    names = set(export.call.signatures) - {"serving_default"}
    assert names == OFFERED[export.settings.objective.name]


def test_reloaded_export_gives_the_numbers_of_the_trained_tower(export):
    inputs = as_ids(ROWS)
    is_token = inputs["input_mask"] == 1
    is_word = is_token & ~np.isin(inputs["input_ids"], [2, 3, 4])
    expected = keras_answers(export, inputs)
    answers = {}
    for name in of_ids(export):
        answers |= export.call(name, **inputs)
    for name, values in expected.items():
        where = is_word if name == "token_log_likelihood" else is_token
        assert np.ptp(values[where]) > 0.02, name
        np.testing.assert_allclose(
            answers[name][where], values[where], atol=1e-5, err_msg=name
        )


def test_padding_and_other_rows_change_no_answer(export):
    for name in of_ids(export):
        together = export.call(name, **as_ids(ROWS, 24))
        for number, row in enumerate(ROWS):
            alone = export.call(name, **as_ids([row]))
            for key, value in alone.items():
                found = together[key][number]
                has_tokens = "S" in signatures.TENSORS[key].shape
                np.testing.assert_allclose(
                    found[: len(row)] if has_tokens else found,
                    value[0],
                    atol=1e-5,
                    err_msg=key,
                )
                if has_tokens and key != "replaced_logits":
                    assert not found[len(row) :].any(), key


def test_text_is_answered_like_its_ids(export):
    (name, *_) = [
        name for name in OFFERED[export.settings.objective.name]
        if name.endswith("_text")
    ]  # fmt: skip
    text = export.call(name, texts=np.array([t.encode() for t in TEXTS]))
    ids = export.call(
        name.replace("_text", "_ids"),
        input_ids=text["input_ids"],
        input_mask=text["input_mask"],
        segment_ids=np.zeros_like(text["input_ids"]),
    )
    np.testing.assert_array_equal(text["num_tokens"], [9, 2, 7])
    for key in ids.keys() & text.keys():
        np.testing.assert_allclose(text[key], ids[key], atol=1e-5)


def test_documentation_in_the_folder_is_of_these_signatures(export):
    table = json.loads((export.folder / "signatures.json").read_text())
    assert set(table) == set(export.call.signatures)
    for name, function in export.call.signatures.items():
        assert set(table[name]["outputs"]) == set(function.structured_outputs)
    readme = (export.folder / "README.md").read_text()
    objective = export.settings.objective.name
    assert f"objective `{objective}`" in readme
    named = {
        name for name in signatures.SIGNATURES if f"### `{name}`" in readme
    }
    assert named == OFFERED[objective]


@pytest.mark.parametrize("name", ["two_stage", "mlm", "electric"])
def test_example_of_the_readme_runs(objective_exports, name):
    export = objective_exports(name)
    readme = (export.folder / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    code = code.replace("PATH_OF_THIS_FOLDER", str(export.folder))
    exec(compile(code, "README.md", "exec"), {})


def test_saved_weights_are_the_main_towers_alone(export):
    saved = tf.train.list_variables(str(export.folder / "variables/variables"))
    num_saved = sum(
        math.prod(shape) for name, shape in saved if "model_variables" in name
    )
    # Vectors of blocks are constants of the graph.
    assert num_saved == sum(
        math.prod(variable.shape)
        for variable in export.model.main.variables
        if len(variable.shape) > 1 or "/layer_" not in variable.path
    )


def test_likelihood_of_a_text_is_that_of_its_tokens_without_special_ones(
    objective_exports,
):
    export = objective_exports("electric")
    answer = export.call("likelihood_ids", **as_ids(ROWS))
    tokens = answer["token_log_likelihood"]
    np.testing.assert_allclose(
        answer["pseudo_log_likelihood"], tokens.sum(axis=1), rtol=1e-5
    )
    counts = [[bool(n > 4) for n in row] + [False] * 7 for row in ROWS]
    np.testing.assert_array_equal(tokens != 0, [row[:7] for row in counts])
    assert answer["pseudo_log_likelihood"][2] == 0


def test_predictions_are_probabilities_best_first(objective_exports):
    export = objective_exports("mlm")
    answer = export.call("predict_ids", **as_ids(ROWS))
    best = answer["top_probabilities"]
    assert best.shape == (3, 7, signatures.NUM_PREDICTIONS)
    assert (np.diff(best, axis=-1) <= 0).all()
    assert (best.sum(axis=-1) <= 1 + 1e-6).all()
    assert (best[0] > 0).all()


def test_small_vocabulary_has_fewer_predictions(objective_exports):
    model = objective_exports("mlm").model
    tower = SimpleNamespace(
        encoder=model.main.encoder,
        head=lambda hidden, table: tf.zeros([*hidden.shape[:2], 3]),
        vocab_size=3,
    )
    rows = (tf.constant(value) for value in as_ids(ROWS).values())
    answer = tower_answers.MaskedLanguageModel(tower).predict(*rows)
    assert answer["top_ids"].shape == (3, 7, 3)


def test_tower_of_another_kind_offers_features(objective_exports, tiny_run):
    tower = SimpleNamespace(encoder=objective_exports("mlm").model.main.encoder)
    answers = tower_answers.build_answers(None, tower, tiny_run.vocabulary)
    assert set(answers.signature_names) == FEATURES
    rows = (tf.constant(value) for value in as_ids(ROWS).values())
    assert answers.features(*rows)["sentence_features"].shape == (3, 16)
    table = documentation.signature_table(answers.signature_names)
    assert table["serving_default"] == table["features_text"]


@pytest.mark.parametrize("name", ["all_tokens_mlm", "replace_mlm", "electric"])
def test_other_precisions_answer_like_the_tower_in_them(
    objective_exports, tiny_run, name
):
    export = objective_exports(name)
    checkpoint = checkpoints.find(export.model_dir, "latest")
    low, exact = (
        trained_run.load_main_tower(
            export.settings, tiny_run.vocabulary, checkpoint, precision
        )
        for precision in ("bfloat16", "float32")
    )
    objective = type(export.model)
    answers = [
        tower_answers.build_answers(objective, tower, tiny_run.vocabulary)
        for tower in (low, exact)
    ]
    rows = [tf.constant(value) for value in as_ids(ROWS).values()]
    family = answers[0].signature_names[-1 if name == "replace_mlm" else 0]
    method = family.rpartition("_")[0]
    found, expected = (getattr(each, method)(*rows) for each in answers)
    for key, value in expected.items():
        if value.dtype == tf.float32:
            assert found[key].dtype == tf.float32
            scale = np.abs(value[value != signatures.PADDING_LOGIT]).max()
            difference = np.abs(found[key] - value).max() / max(scale, 1)
            assert 0 < difference < 0.1, key
