"""The folder that TensorFlow Serving serves: versions of models, and settings.

    serving_dir/
        models.config                  which models, for --model_config_file
        batching.config                for --batching_parameters_file
        electra/
            1/  2/  ...                exports; the highest number is served

Versions appear complete (`atomic`), and a server finds them by itself. The two
files are written where they are missing. A model that models.config does not
name is added there; nothing else in them is ever changed.
"""

import pathlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from electra_tf import errors
from electra_tf.export import self_check
from electra_tf.export import signatures
from electra_tf.export.models import exported_module
from electra_tf.processes import atomic

MODELS_CONFIG = "models.config"
BATCHING_CONFIG = "batching.config"
DEFAULT_SERVER_DIR = "/models"
"""Where the server's container image expects models."""
BATCH_SIZES = (1, 8)
"""Texts of a warm-up request. A server that batches must allow the largest: it
does not load a model that cannot answer its warm-up."""
# TensorFlow Serving looks for this name in `assets.extra`.
_WARM_UP_FILE = "tf_serving_warmup_requests"
_WARM_UP_TEXT = "The function returns the number of items in a container. "
# What REST addresses take as a name, without escapes.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

_TEXTS = signatures.read_table("serving.toml")


class ServingFolder:
    """The versions of one model in a serving folder.

    Nothing is written before `write_settings`.
    """

    def __init__(
        self, folder: pathlib.Path, model_name: str, server_dir: str = ""
    ) -> None:
        if not _NAME.fullmatch(model_name):
            raise errors.ModelError(
                "The name of a served model must consist of letters, digits, "
                f"_, . and -, as it is part of addresses. Received: "
                f"{model_name!r}. Give another --model_name."
            )
        if server_dir and not server_dir.startswith("/"):
            raise errors.ModelError(
                "`server_dir` must be an absolute path, TensorFlow Serving "
                f"takes no other. Received: {server_dir!r}. Name the folder "
                "as the server sees it, in a container for example /models."
            )
        self.folder = folder
        self.model_name = model_name
        base = server_dir or DEFAULT_SERVER_DIR
        self.base_path = f"{base.rstrip('/')}/{model_name}"
        self._plan_config(is_asked=bool(server_dir))

    @property
    def versions(self) -> list[int]:
        """Numbers of the model's versions, ascending."""
        folder = self.folder / self.model_name
        if not folder.is_dir():
            return []
        return sorted(
            int(path.name)
            for path in folder.iterdir()
            if path.name.isdecimal() and path.name.isascii()
        )

    def next_version(self) -> pathlib.Path:
        """The folder of a version that is not there yet."""
        number = max(self.versions, default=0) + 1
        return self.folder / self.model_name / str(number)

    def write_settings(self) -> list[str]:
        """Writes what is missing; says of each file what was done."""
        models = self.folder / MODELS_CONFIG
        existed = models.is_file()
        config = self._plan_config()
        report = [f"{models} already names {self.model_name} and was kept."]
        if config is not None:
            _write(models, config)
            deed = "added to" if existed else "written to"
            report = [f"{self.model_name} was {deed} {models}."]
        batching = self.folder / BATCHING_CONFIG
        if batching.exists():
            return [*report, f"{batching} was kept."]
        config = _TEXTS["batching_config"].format(largest=max(BATCH_SIZES))
        _write(batching, config)
        return [*report, f"{batching} was written."]

    def _plan_config(self, is_asked: bool = False) -> str | None:
        """The new text of models.config; None to leave it as it is.

        With `is_asked` another base path of the model there is an error.
        """
        path = self.folder / MODELS_CONFIG
        model = _TEXTS["model"].format(
            name=self.model_name, base_path=self.base_path
        )
        if not path.exists():
            return _TEXTS["models_config"].format(model=model)
        text = _read(path)
        for entry in _parse(path, text).model_config_list.config:
            if entry.name == self.model_name:
                if is_asked and entry.base_path != self.base_path:
                    raise errors.ModelError(
                        f"{path} must say the base_path {self.base_path!r} of "
                        f"{self.model_name}, as --server_dir does. Received: "
                        f"{entry.base_path!r}. It is yours: change it there, "
                        "or leave --server_dir out."
                    )
                return None
        return _add_model(path, text, model)


def choose_target(
    export_dir: str | None,
    serving_dir: str | None,
    model_name: str | None,
    server_dir: str | None,
) -> tuple[pathlib.Path, ServingFolder | None]:
    """The folder to create, and the serving folder that it belongs to.

    Arguments are flags of `scripts/export_saved_model.py`, None where absent.
    """
    if (export_dir is None) == (serving_dir is None):
        raise ValueError("Give exactly one of --export_dir and --serving_dir.")
    if (model_name is None) != (serving_dir is None):
        raise ValueError("Give --serving_dir and --model_name together.")
    if server_dir is not None and serving_dir is None:
        raise ValueError("--server_dir belongs to --serving_dir.")
    if export_dir is not None:
        return pathlib.Path(export_dir), None
    folder = ServingFolder(
        pathlib.Path(str(serving_dir)), str(model_name), server_dir or ""
    )
    return folder.next_version(), folder


def write_warm_up(
    folder: pathlib.Path, module: exported_module.ExportedModule
) -> None:
    """Writes the requests that a server asks before it calls a model available.

    The first request of a kind is slow, because the server prepares a graph
    for it. For every signature: one text and several, short and long.
    """
    with tf.io.TFRecordWriter(str(folder / _WARM_UP_FILE)) as writer:
        for request in _build_warm_up(module):
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.CopyFrom(request)
            writer.write(log.SerializeToString())


def _build_warm_up(
    module: exported_module.ExportedModule,
) -> Iterator[predict_pb2.PredictRequest]:
    short = _WARM_UP_TEXT.encode()
    # A word has at least one piece, so this fills a row.
    repeats = -(-module.max_length // len(_WARM_UP_TEXT.split()))
    names = {"serving_default": module.signature_names[0]}
    # A server prepares a second name of a signature once more.
    names |= {name: name for name in module.signature_names}
    for name, signature in names.items():
        for text in (short, short * repeats):
            for size in BATCH_SIZES:
                request = predict_pb2.PredictRequest()
                request.model_spec.signature_name = name
                arguments = self_check.build_request(
                    module, signature, np.array([text] * size, np.bytes_)
                )
                for key, value in arguments.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
                yield request


def _read(path: pathlib.Path) -> str:
    try:
        # Unlike `read_text`, line ends stay as they are.
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.ModelError(
            f"{path} must be UTF-8. Received: {error}. Save it as UTF-8, or "
            "move it away."
        ) from error


def _parse(
    path: pathlib.Path, text: str
) -> model_server_config_pb2.ModelServerConfig:
    config = model_server_config_pb2.ModelServerConfig()
    try:
        return text_format.Parse(text, config)
    except text_format.ParseError as error:
        raise errors.ModelError(
            f"{path} must be a ModelServerConfig in text form. Line and "
            f"column, and what is wrong: {error}. Repair it or move it away."
        ) from error


def _add_model(path: pathlib.Path, text: str, model: str) -> str:
    """The text with one more model before its last brace; comments stay."""
    before, brace, after = text.rpartition("}")
    separator = "" if before.endswith("\n") or not before else "\n"
    added = before + separator + model + brace + after
    block = f"model_config_list {{\n{model}}}"
    expected = _parse(path, text)
    expected.MergeFrom(_parse(path, block))
    try:
        is_added = _parse(path, added) == expected
    except errors.ModelError:
        is_added = False
    if not is_added:
        raise errors.ModelError(
            f"{path} must end with the closing brace of its model_config_list "
            "for a model to be added. Received: another form. Add this "
            f"yourself, then export again:\n{block}"
        )
    return added


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing_file(path) as partial:
        partial.write_bytes(text.encode("utf-8"))
