"""Fine-tuned models in Python: loaded, asked, saved, made of lists."""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import yaml

import electra_tf
from electra_tf import errors
from electra_tf.export.clients import text_models
from electra_tf.loaded_models import finetuned
from tests import tiny_electra
from tests.export import conftest
from tests.export import finetuned_tiny

LONG = "the unaffable cat sat on the mat , " * 6
INPUTS = {
    "sst2": {"texts": ["The cat sat.", "", LONG]},
    "mrpc": {"texts": ["a dog", LONG], "text_pairs": ["the cat", "on a mat"]},
    "stsb": {"texts": ["a dog", LONG], "text_pairs": ["who?"]},
    "chunking": {"texts": ["The Café sat, unaffable", " ", LONG]},
    "squad2": {"questions": ["Who sat?", "Where?"], "contexts": [LONG]},
}
_about = functools.partial(pytest.approx, abs=1e-4)


@pytest.fixture(scope="module")
def load(tiny_trial):
    """Models of the tasks of one trial, each loaded once."""
    return functools.cache(
        lambda name: electra_tf.load(tiny_trial.folder, task=name)
    )


def ask(model, inputs):
    # Exports call pairs otherwise.
    given = {name.replace("text_", ""): v for name, v in inputs.items()}
    return model.predict(**given)


def require_close(found, expected):
    assert list(map(type, found)) == list(map(type, expected))
    one, other = (
        json.dumps([dataclasses.asdict(prediction) for prediction in answers])
        for answers in (found, expected)
    )
    wanted = json.loads(other, parse_float=lambda text: _about(float(text)))
    assert json.loads(one) == wanted


@pytest.mark.parametrize("name", ["sst2", "chunking", "squad2", *conftest.SLOW])
def test_a_loaded_trial_answers_as_its_export(load, task_exports, name):
    model = load(name)
    export = text_models.LoadedExport(task_exports(name))
    expected = export.answer(INPUTS[name])
    found = ask(model, INPUTS[name])
    require_close(found, [prediction for _, prediction in expected])
    assert model.metadata == dataclasses.replace(
        export.metadata, device=model.metadata.device
    )
    assert f"of {name}, " in repr(model)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("sst2", "electra_tf"),
        ("squad2", "electra_tf"),
        ("mrpc", "huggingface"),
        ("stsb", "huggingface"),
        ("chunking", "huggingface"),
        ("sst2", "tf1"),
    ],
)
def test_a_saved_model_answers_the_same(load, tmp_path, name, format):
    model, inputs = load(name), INPUTS[name]
    if format != "electra_tf":
        # Other formats do not tell how long rows were in training.
        inputs = {k: [t[:20] for t in texts] for k, texts in inputs.items()}
    model.save(tmp_path / "saved", format)
    again = electra_tf.load(tmp_path / "saved")
    require_close(ask(again, inputs), ask(model, inputs))
    assert "saved" in again.origin
    with pytest.raises(FileExistsError, match="must not exist"):
        model.save(tmp_path / "saved", format)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("sst2", {"texts": "one"}, "must be a list of str"),
        ("sst2", {}, "takes texts .* Received: nothing"),
        ("sst2", {"texts": ["a"], "pairs": ["a"]}, "1 texts and 1 pairs"),
        ("mrpc", {"texts": ["a"]}, r"texts \(--text\) and pairs \(--text_pair"),
        ("mrpc", {"texts": ["a"] * 2, "pairs": ["a"] * 3}, "2 texts and 3"),
        ("squad2", {"texts": ["a"]}, "questions .*and contexts"),
    ],
)
def test_other_inputs_are_refused(load, name, inputs, message):
    with pytest.raises(ValueError, match=message):
        load(name).predict(**inputs)


def test_a_keras_file_holds_the_model_and_training_it_is_seen(
    tiny_trial, tmp_path
):
    model = electra_tf.load(tiny_trial.folder, task="sst2")
    before = model.predict(["the cat"])
    model.keras_model.save(tmp_path / "model.keras")
    for variable in model.keras_model.weights:
        variable.assign(0.5 * variable)
    assert model.predict(["the cat"]) != before
    again = keras.models.load_model(tmp_path / "model.keras")
    weights = model.keras_model.weights
    for mine, saved in zip(weights, again.weights, strict=True):
        np.testing.assert_array_equal(mine, 0.5 * saved)


def test_one_task_of_the_best_trial_is_taken(tmp_path):
    settings = finetuned_tiny.build_settings()
    for number, value in ((1, 80.0), (2, 90.0)):
        folder = tmp_path / "cola" / f"trial_0{number}"
        finetuned_tiny.write_trial(folder, settings, seed=number)
        finetuned_tiny.write_scores(folder, value)
    with pytest.raises(ValueError, match="Received: no task. Give task='sst2'"):
        electra_tf.load(tmp_path / "cola")
    with pytest.raises(ValueError, match="`task` is for a fine-tuning"):
        electra_tf.load("tiny-en", task="cola")
    # As the tasks of a benchmark lie.
    with pytest.raises(ValueError, match="trained on cola;.* 'rte'"):
        electra_tf.load(tmp_path, task="rte")
    model = electra_tf.load(tmp_path / "cola", task="mrpc")
    assert "trial_02" in model.origin
    assert model.metadata.scores["dev"]["f1"] == 90
    assert "dev f1 90.00" in model.summary
    model.save(tmp_path / "hub" / "my-model")
    card = (tmp_path / "hub" / "my-model" / "README.md").read_text()
    _, header, page = card.split("---\n", 2)
    header = yaml.safe_load(header)
    assert header["pipeline_tag"] == "text-classification"
    (result,) = header["model-index"][0]["results"]
    assert {"type": "f1", "value": 90.0} in result["metrics"]
    assert result["dataset"] == {"name": "mrpc", "type": "mrpc", "split": "dev"}
    assert "# my-model" in page and "text_pair" in page
    # Scores stay with their weights.
    for change in (1.0, 0.5):
        bias = model.keras_model.weights[0]
        bias.assign(change * bias)
        model.save(tmp_path / f"saved {change}", "electra_tf")
        saved = electra_tf.load(tmp_path / f"saved {change}")
        assert bool(saved.metadata.scores) == (change == 1.0)


def test_a_list_is_learned(tmp_path, capsys):
    electra = tiny_electra.build()
    rows = [
        (f"{first} {mood} {noun} .", mood)
        for first in ("the", "a")
        for mood in ("good", "bad", "bad")
        for noun in ("cat", "dog", "film", "mat")
    ]
    arguments = {
        "output_dir": tmp_path / "out",
        "training": {"num_train_epochs": 40, "train_batch_size": 8},
        "optimizer": {"learning_rate": 3e-3, "layerwise_lr_decay": 1.0},
    }
    model = electra.finetune(rows, rows[:12], **arguments)
    assert isinstance(model, finetuned.FinetunedModel)
    assert model.labels == ("bad", "good")
    assert model.metadata.scores["dev"]["accuracy"] > 90
    assert model.predict(["the good cat"])[0].label == "good"
    assert electra_tf.load(tmp_path / "out").origin == model.origin
    assert "step" in capsys.readouterr().out
    # What is done is read; other data or weights are noticed.
    again = electra.finetune(rows, rows[:12], **arguments)
    assert again.predict(["a cat"]) == model.predict(["a cat"])
    # Its encoder is a start too, as `--pretrained_dir=TRIAL` takes it.
    further = model.finetune(
        rows, optimizer={"learning_rate": 0.0}, training={"num_train_epochs": 1}
    )
    assert further.predict(["a cat"]) != model.predict(["a cat"])
    encoders = further.keras_model.encoder, model.keras_model.encoder
    for mine, learned in zip(*(e.weights for e in encoders), strict=True):
        np.testing.assert_array_equal(mine, learned)
    with pytest.raises(errors.ModelError, match="other data: train of own"):
        electra.finetune(rows[2:], rows[:12], **arguments)
    for variable in electra.encoder.trainable_variables:
        variable.assign(0.5 * variable)
    with pytest.raises(errors.ModelError, match="weights of sha256"):
        electra.finetune(rows, rows[:12], **arguments)


def test_a_mistake_in_a_list_is_named_by_its_row_and_no_file():
    rows = [("a cat", "good"), (" ", "bad")]
    with pytest.raises(errors.DataError, match="^`train`, line 2: expected a"):
        tiny_electra.build().finetune(rows)
