"""The folder that TensorFlow Serving serves: versions of models, and settings.

`models.config` lists the models and `batching.config` controls the batching of
requests; `electra/1`, `electra/2` and so on are exports. A model that is not in
models.config is added there; nothing else in the two files is ever changed.
"""

import itertools
import pathlib
import re

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from electra_tf import errors
from electra_tf.export import export_metadata
from electra_tf.export import self_check
from electra_tf.export.models.exported_module import ExportedModule
from electra_tf.processes import atomic

MODELS_CONFIG = "models.config"
BATCH_SIZES = (1, 8)
"""Texts per warm-up request. A server must allow the largest batch: it does not
load a model that cannot answer its warm-up."""
# TensorFlow Serving looks for this name in `assets.extra`.
_WARM_UP_FILE = "tf_serving_warmup_requests"
_WARM_UP_TEXT = "The function returns the number of items in a container. "
# A name that needs no escapes in REST addresses.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def next_version(folder: pathlib.Path, model_name: str) -> pathlib.Path:
    """Returns the folder of a model's next version."""
    names = [path.name for path in (folder / model_name).glob("*")]
    numbers = [int(n) for n in names if n.isdecimal() and n.isascii()]
    return folder / model_name / str(max(numbers, default=0) + 1)


def write_settings(
    folder: pathlib.Path, model_name: str, server_dir: str = ""
) -> list[str]:
    """Completes the two files of settings; returns a line about each."""
    models, batching = folder / MODELS_CONFIG, folder / "batching.config"
    verb = "added to" if models.is_file() else "written to"
    config = plan_config(folder, model_name, server_dir)
    report = [f"{models} already names {model_name} and was kept."]
    if config is not None:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_text(models, config)
        report = [f"{model_name} was {verb} {models}."]
    if batching.exists():
        return [*report, f"{batching} was kept."]
    text = export_metadata.read_table("serving.toml")["batching_config"]
    atomic.write_text(batching, text.format(largest=max(BATCH_SIZES)))
    return [*report, f"{batching} was written."]


def plan_config(
    folder: pathlib.Path, model_name: str, server_dir: str = ""
) -> str | None:
    """Returns the new text of models.config; None if it lists the model.

    Raises `ModelError` for a damaged file, or a bad name or path.
    """
    # By default, the folder of models in the server's container image.
    base = server_dir or "/models"
    if not _NAME.fullmatch(model_name) or not base.startswith("/"):
        raise errors.ModelError(
            "--model_name must consist of letters, digits, _, . and -, as it "
            "is part of addresses, and --server_dir be an absolute path such "
            f"as /models. Received: {model_name!r} and {base!r}."
        )
    path, base_path = folder / MODELS_CONFIG, f"{base.rstrip('/')}/{model_name}"
    texts = export_metadata.read_table("serving.toml")
    model = texts["model"].format(name=model_name, base_path=base_path)
    if not path.exists():
        return texts["models_config"].format(model=model)
    # Bytes, because `read_text` would change line ends.
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
        known = _parse(text).model_config_list.config
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise errors.ModelError(
            f"{path} must be a ModelServerConfig in text form, in UTF-8. "
            f"Received: {error}. Repair it or move it away."
        ) from error
    for entry in known:
        if entry.name == model_name:
            if server_dir and entry.base_path != base_path:
                raise errors.ModelError(
                    f"{path} must have the base_path {base_path!r} for "
                    f"{model_name}, as --server_dir does. Received: "
                    f"{entry.base_path!r}. Change one of the two."
                )
            return None
    return _add_model(path, text, model)


def write_warm_up(folder: pathlib.Path, module: ExportedModule) -> None:
    """Writes requests that a server answers before it offers the model.

    The first request of each form is slow, because the server prepares its
    graph. Each signature gets one text and several texts, short and long.
    """
    short = _WARM_UP_TEXT.encode()
    # A word has at least one token, so this fills a row.
    repeats = -(-module.max_length // len(_WARM_UP_TEXT.split()))
    # A server prepares each name of a signature separately.
    names = {name: name for name in module.signature_names}
    names["serving_default"] = module.signature_names[0]
    texts = short, short * repeats
    with tf.io.TFRecordWriter(str(folder / _WARM_UP_FILE)) as writer:
        for name, text, size in itertools.product(names, texts, BATCH_SIZES):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = name
            batch = np.array([text] * size, np.bytes_)
            inputs = self_check.build_request(module, names[name], batch)
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            # Deterministic: else the order of the inputs varies.
            writer.write(log.SerializeToString(deterministic=True))


def _parse(text: str) -> model_server_config_pb2.ModelServerConfig:
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


def _add_model(path: pathlib.Path, text: str, model: str) -> str:
    """Adds a model to a text before the last brace; keeps comments."""
    before, brace, after = text.rpartition("}")
    separator = "" if before.endswith("\n") or not before else "\n"
    added = before + separator + model + brace + after
    block = f"model_config_list {{\n{model}}}"
    expected = _parse(text)
    expected.MergeFrom(_parse(block))
    try:
        is_added = _parse(added) == expected
    except text_format.ParseError:
        is_added = False
    if not is_added:
        raise errors.ModelError(
            f"{path} must end with the closing brace of its model_config_list "
            "for a model to be added. Received: another form. Add this "
            f"yourself, then export again:\n{block}"
        )
    return added
