"""Models of Hugging Face's transformers, read and written without it.

    config.json
    model.safetensors    or in parts, which model.safetensors.index.json names
    pytorch_model.bin    read by PyTorch, which must be installed for it
    tokenizer files      see `tokenizer_files`

A pre-trained ELECTRA is two models there: an `ElectraForPreTraining` and an
`ElectraForMaskedLM`, whose encoder has the embeddings once more. We write them
as `folder/discriminator` and `folder/generator`, and read that, or any one of
them, or a fine-tuned model.
"""

import dataclasses
import pathlib
import zipfile
from typing import Annotated
from typing import Any
from typing import Literal

import ml_dtypes
import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_files

CONFIG_FILE = "config.json"
SAFETENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TORCH_FILE = "pytorch_model.bin"
_ENCODER = "ElectraModel"
# Class to the part that it has beside its encoder.
_HEAD_PARTS = {
    "ElectraForPreTraining": portable.REPLACED_TOKEN_HEAD,
    "ElectraForMaskedLM": portable.MASKED_LM_HEAD,
}
_CLASSES = (*_HEAD_PARTS, _ENCODER,
            *dict.fromkeys(hugging_face_heads.CLASSES.values()))  # fmt: skip
# Buffers of older releases, and the tied table that some files repeat.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
_TIED_OUTPUT = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"

_FileName = Annotated[str, pydantic.Field(pattern=r"^[^/\\]+$")]
_Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e-12)]


@schema.frozen
class _Config:
    """What a config must say, for ours computes nothing else."""

    model_type: Literal["electra"] = "electra"
    architectures: tuple[Annotated[str, schema.one_of(*_CLASSES)]] | None = None
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: _Epsilon = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False


@schema.frozen
class _Index:
    """Which file beside the index holds which tensor."""

    weight_map: dict[str, _FileName]


def is_folder(path: pathlib.Path) -> bool:
    """Returns whether a folder holds a model of Hugging Face's."""
    folder = path / "discriminator" if _is_pair(path) else path
    try:
        content = schema.read_object(folder / CONFIG_FILE)
    except (OSError, ValueError):
        return False
    return "architectures" in content or "model_type" in content


def _is_pair(path: pathlib.Path) -> bool:
    """Returns whether a folder holds a discriminator in a folder below it."""
    is_model = (path / CONFIG_FILE).exists()
    return (path / "discriminator").exists() and not is_model


def read(path: pathlib.Path) -> portable.PortableModel:
    """Reads a folder with a model, or with both of a pre-trained ELECTRA."""
    if not _is_pair(path):
        return _read_one(path)
    main = _read_one(path / "discriminator")
    if not (path / "generator").exists():
        return main
    return portable.join(main, _read_one(path / "generator"))


def _read_one(path: pathlib.Path) -> portable.PortableModel:
    """Reads one folder; a masked LM's encoder is its main one."""
    file = path / CONFIG_FILE
    stated = _read_config(file)
    known = portable.build_known(_Config, stated, file)
    architecture = known.architectures[0] if known.architectures else _ENCODER
    # What a config leaves out is the same there as in ours.
    encoder = portable.build_known(config.EncoderConfig, stated, file)
    task, table = None, parameter_names.HUGGING_FACE
    if architecture in hugging_face_heads.CLASSES.values():
        task = hugging_face_heads.read_task(stated, architecture, file)
        table = hugging_face_heads.name_table(task.kind)
    expected = _expected_shapes(architecture, encoder, task)
    arrays, source = read_tensors(path)
    notes = parameter_names.precision_notes(
        str(value.dtype) for value in arrays.values()
    )
    if _take_tied_output(arrays, source):
        notes.insert(0, f"{_TIED_OUTPUT} is the token table, kept once")
    has_prefix = any(name.startswith("electra.") for name in arrays)
    if architecture == _ENCODER and not has_prefix:
        arrays = {f"electra.{name}": arrays[name] for name in arrays}
    tensors = parameter_names.take(
        arrays, expected, table, f"{source}, by its {CONFIG_FILE},", _NO_WEIGHTS
    )
    if task is not None:
        tensors, task = hugging_face_heads.from_hugging_face(tensors, task)
        if task.kind == "tagging":
            notes.insert(0, "exchanged segments 0 and 1, words are in 1 here")
    vocabulary = tokenizer_files.load_if_there(path, encoder)
    return portable.PortableModel(
        tensors,
        encoder,
        vocabulary=vocabulary,
        task=task,
        origin=f"Hugging Face {architecture} {path}",
        notes=(*notes, *tokenizer_files.notes_of(vocabulary)),
    )


def _expected_shapes(
    architecture: str,
    encoder: config.EncoderConfig,
    task: portable.PortableTask | None,
) -> layout.Shapes:
    shapes = layout.encoder_shapes(portable.MAIN, encoder)
    if task is not None:
        return shapes | hugging_face_heads.head_shapes(
            task, encoder.hidden_size
        )
    part = _HEAD_PARTS.get(architecture, portable.MAIN)
    return shapes | (layout.part_shapes(part, encoder, None, "none") or {})


def _read_config(file: pathlib.Path) -> dict[str, Any]:
    try:
        return schema.read_object(file, errors.ModelError)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Expected {CONFIG_FILE} of a Hugging Face model in {file.parent}. "
            "Received: a folder without it. Download the model whole."
        ) from error


def _take_tied_output(
    arrays: parameter_names.Arrays, source: pathlib.Path
) -> bool:
    """Removes the token table where a file repeats it as output matrix."""
    repeated = arrays.pop(_TIED_OUTPUT, None)
    if repeated is None:
        return False
    if not np.array_equal(repeated, arrays.get(_TABLE, ())):
        raise errors.ModelError(
            f"{source}: {_TIED_OUTPUT} must be the table of word embeddings, "
            "which the output is tied to. Received: another matrix."
        )
    return True


def read_tensors(
    folder: pathlib.Path,
) -> tuple[parameter_names.Arrays, pathlib.Path]:
    """Reads all tensors of a model's folder."""
    for name, read_file in (
        (SAFETENSORS_FILE, _read_safetensors),
        (INDEX_FILE, _read_parts),
        (TORCH_FILE, _read_torch),
    ):
        if (folder / name).is_file():
            return read_file(folder / name), folder / name
    raise FileNotFoundError(
        f"Expected {SAFETENSORS_FILE}, {INDEX_FILE} or {TORCH_FILE} in "
        f"{folder}. Received: none of them. Give the folder of a model, "
        "downloaded whole."
    )


def _read_safetensors(path: pathlib.Path) -> parameter_names.Arrays:
    try:
        with safetensors.safe_open(path, framework="numpy") as stream:
            names = stream.keys()
            return {name: stream.get_tensor(name) for name in names}
    except (
        safetensors.SafetensorError,
        AttributeError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise errors.ModelError(
            f"{path} must be a safetensors file of types that numpy has, such "
            f"as float32. Received: {error}. If it is cut off or damaged, "
            "download it again."
        ) from error


def _read_parts(index: pathlib.Path) -> parameter_names.Arrays:
    stated = schema.read_object(index, errors.ModelError)
    parts = portable.build_known(_Index, stated, index).weight_map
    tensors: parameter_names.Arrays = {}
    for name in sorted(set(parts.values())):
        found = _read_safetensors(index.parent / name)
        wrong = sorted(found.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise errors.ModelError(
                f"{index} must name every tensor of its files. Received: "
                f"others in {name}: {', '.join(wrong)}. Download all files of "
                "the model again."
            )
        tensors |= found
    return tensors


def _read_torch(path: pathlib.Path) -> parameter_names.Arrays:
    """Reads what `torch.save` wrote.

    The file is a pickle, which could run any program; `weights_only` refuses
    whatever is not a tensor.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} can only be read with PyTorch. Install it with pip "
            "install 'electra-tf[torch]', or take the model's "
            f"{SAFETENSORS_FILE}."
        ) from error
    try:
        _require_checksums(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {str(name): _to_array(found[name]) for name in found}
    except Exception as error:
        # A damaged file can make PyTorch fail in any way.
        reason = (str(error).splitlines() or [""])[0]
        raise errors.ModelError(
            f"{path} must hold a dict of tensors, as torch.save writes it. "
            f"Received: {type(error).__name__}: {reason:.300}. Download it "
            f"again, or take the model's {SAFETENSORS_FILE}."
        ) from error


def _require_checksums(path: pathlib.Path) -> None:
    """PyTorch itself does not compare the checksums of its archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f"the checksum of {damaged} differs")


def _to_array(tensor: Any) -> np.ndarray:
    import torch

    if tensor.dtype == torch.bfloat16:
        # PyTorch makes no arrays of these.
        bits = tensor.detach().contiguous().view(torch.uint16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return tensor.detach().numpy()


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes what `from_pretrained` reads, and returns the same model."""
    _require_classes(model)
    for name, part in portable.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(part, target)
    return model


def _require_classes(model: portable.PortableModel) -> None:
    known = {portable.MAIN, portable.GENERATOR, *_HEAD_PARTS.values()}
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    unknown = [part for part in model.parts if part not in known]
    if unknown:
        raise errors.ModelError(
            f"Hugging Face has no class for {', '.join(unknown)} of "
            f"{model.origin}: an encoder that sees both sides has a "
            "replaced-token or a masked-LM head there. Leave them out with "
            f"--drop='{'|'.join(unknown)}'."
        )
    head = portable.REPLACED_TOKEN_HEAD
    if model.objective == "electric" and head in model.parts:
        raise errors.ModelError(
            "The logits of an Electric model are energies, for which Hugging "
            f"Face has no class. Received: {model.origin}. Leave its head out "
            f"with --drop={head}."
        )


def _write_one(model: portable.PortableModel, folder: pathlib.Path) -> None:
    architecture, tensors = _ENCODER, model.tensors
    table, task_fields = parameter_names.HUGGING_FACE, {}
    if model.task is not None:
        architecture = hugging_face_heads.CLASSES[model.task.kind]
        tensors = hugging_face_heads.to_hugging_face(tensors, model.task)
        table = hugging_face_heads.name_table(model.task.kind)
        task_fields = hugging_face_heads.task_fields(model.task, model.origin)
    for name, part in _HEAD_PARTS.items():
        architecture = name if part in model.parts else architecture
    arrays = table.split_all(tensors)
    if architecture == _ENCODER:
        arrays = {n.removeprefix("electra."): arrays[n] for n in arrays}
    # transformers refuses files that do not name their framework. The library
    # that saves them itself would let only the owner read them.
    content = safetensors.numpy.save(arrays, {"format": "pt"})
    (folder / SAFETENSORS_FILE).write_bytes(content)
    text = schema.to_json(_config_fields(model, architecture) | task_fields)
    (folder / CONFIG_FILE).write_text(text, "utf-8")
    if model.vocabulary is not None:
        tokenizer_files.write_hugging_face(
            model.vocabulary, folder, model.encoder.max_position_embeddings
        )


def _config_fields(
    model: portable.PortableModel, architecture: str
) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(model.encoder),
        "initializer_range": model.encoder.initializer_stddev,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": model.vocabulary.pad_id if model.vocabulary else 0,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
