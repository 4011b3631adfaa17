"""A folder for TensorFlow Serving: versions, and files that stay the user's."""

import json
import re

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from electra_tf import errors
from electra_tf.export import serving_folder
from tests.export import conftest


def parse(folder):
    text = (folder / "models.config").read_text()
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


def test_settings_of_a_new_folder_are_what_the_server_takes(tmp_path):
    report = "\n".join(
        serving_folder.write_settings(tmp_path / "new", "electra")
    )
    assert "models.config" in report
    assert "batching.config was written" in report
    (entry,) = parse(tmp_path / "new").model_config_list.config
    assert entry.name == "electra"
    assert entry.base_path == "/models/electra"
    assert entry.model_platform == "tensorflow"
    assert entry.model_version_policy.latest.num_versions == 1
    # There is no class to parse it by.
    text = (tmp_path / "new" / "batching.config").read_text()
    fields = re.findall(r"^(\w+) ?(?:\{ value: (\d+) \}|: (\w+))$", text, re.M)
    batching = {name: int(n) if n else word for name, n, word in fields}
    # A model whose warm-up is larger than a batch would not be loaded.
    assert batching["max_batch_size"] >= max(serving_folder.BATCH_SIZES)
    # It would pad `input_mask` with its first value, 1.
    assert batching["pad_variable_length_inputs"] == "false"
    others = "num_batch_threads", "batch_timeout_micros", "max_enqueued_batches"
    assert all(batching.pop(name) >= 1 for name in others)
    assert len(batching) == 2


def test_the_next_version_follows_the_highest_number(tmp_path):
    for name in ("2", "10", "\u0663\u0664", "11.partial"):
        (tmp_path / "electra" / name).mkdir(parents=True)
    assert serving_folder.next_version(tmp_path, "electra").name == "11"


def test_another_model_is_added_and_comments_stay(tmp_path):
    serving_folder.write_settings(tmp_path, "electra")
    path = tmp_path / "models.config"
    mine = f"# first line\n{path.read_text()}# the end\n"
    for old, new in (
        ("latest { num_versions: 1 }", "specific { versions: 4 }"),
        ('"tensorflow"\n', '"tensorflow"  # mine\n'),
    ):
        mine = mine.replace(old, new, 1)
    path.write_text(mine)
    (tmp_path / "batching.config").write_text("max_batch_size { value: 9 }")
    report = serving_folder.write_settings(tmp_path, "tagger", "/srv/m/")
    assert "tagger was added" in report[0]
    assert "kept" in report[1]
    text = path.read_text()
    # Every line that was there is there, in its order.
    remaining = iter(text.splitlines())
    assert all(line in remaining for line in mine.splitlines())
    first, second = parse(tmp_path).model_config_list.config
    assert list(first.model_version_policy.specific.versions) == [4]
    assert (second.name, second.base_path) == ("tagger", "/srv/m/tagger")
    text = (tmp_path / "batching.config").read_text()
    assert text == "max_batch_size { value: 9 }"


def read_warm_up(folder):
    """The warm-up requests: `signature_name` and inputs as arrays."""
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        # The same model has the same bytes, in every process.
        assert log.SerializeToString(deterministic=True) == record
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        yield request.model_spec.signature_name, inputs


def test_every_signature_answers_its_warm_up(any_export, exported):
    documented = json.loads((any_export / "signatures.json").read_text())
    call, asked = conftest.load(any_export), []
    requests = list(read_warm_up(any_export))
    for signature, inputs in requests:
        sizes = {len(value) for value in inputs.values()}
        assert len(sizes) == 1
        asked.append((signature, *sizes))
        for key, value in inputs.items():
            dtype = documented[signature]["inputs"][key]["dtype"]
            assert tf.as_dtype(value.dtype) == tf.as_dtype(dtype)
        answers = call(signature, **inputs)
        assert set(answers) == set(documented[signature]["outputs"])
        assert {len(value) for value in answers.values()} == sizes
    sizes = serving_folder.BATCH_SIZES
    assert set(asked) == {(name, size) for name in documented for size in sizes}
    assert len(asked) <= 1000
    if any_export == exported:
        ids = [i["input_ids"] for s, i in requests if s == "score_ids"]
        assert {(1, 24), (8, 24)} <= {rows.shape for rows in ids}
        assert min(rows.shape[1] for rows in ids) < 24


def test_a_file_that_cannot_be_added_to_is_refused_and_kept(tmp_path):
    path = tmp_path / "models.config"
    path.write_bytes(b"# mine\r\nmodel_config_list {\r\n}\r\n")
    serving_folder.write_settings(tmp_path, "electra")
    # Line ends stay.
    kept = path.read_bytes()
    assert kept.startswith(b"# mine\r\nmodel_config_list {\r\n  config {")
    for config, message in (
        (kept, "must have the base_path '/other/electra'"),
        (b"model_config_list {", "must be a ModelServerConfig in text"),
        (b"model_config_list {}\n# }", "Add this yourself"),
    ):
        path.write_bytes(config)
        with pytest.raises(errors.ModelError, match=message):
            serving_folder.plan_config(tmp_path, "electra", "/other")
        assert path.read_bytes() == config
