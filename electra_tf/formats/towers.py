"""Two towers as two models with a folder each, and the two as one again.

Hugging Face and KerasHub know one encoder at a time, and both have the
embeddings that ours share. Shared weights are recognized by their bits.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

from electra_tf.formats import layout
from electra_tf.formats import portable

DISCRIMINATOR, GENERATOR = "discriminator", "generator"
_EMBEDDINGS = f"{portable.MAIN}/embeddings/"

ReadOne = Callable[[pathlib.Path], portable.PortableModel]


def are_apart(path: pathlib.Path) -> bool:
    """Whether a folder holds a discriminator in a folder of its own."""
    is_model = (path / "config.json").exists()
    return _is_there(discriminator_folder(path)) and not is_model


def _is_there(path: pathlib.Path) -> bool:
    """Whether there is anything, a link to nothing too."""
    return path.exists() or path.is_symlink()


def discriminator_folder(path: pathlib.Path) -> pathlib.Path:
    """Where `split`'s discriminator is written."""
    return path / DISCRIMINATOR


def read(path: pathlib.Path, read_one: ReadOne) -> portable.PortableModel:
    """A model out of one folder, or out of both towers' under it.

    Args:
        path: the folder.
        read_one: reads one tower, whose encoder it calls the main one.

    Raises:
        FormatError: if the towers do not belong together, or if one is no
            folder.
    """
    if not are_apart(path):
        return read_one(path)
    folders = [path / name for name in (DISCRIMINATOR, GENERATOR)]
    there = [folder for folder in folders if _is_there(folder)]
    for folder in there:
        if not folder.is_dir():
            raise portable.FormatError(
                f"{folder} must be the folder of a tower. Received: a file, "
                "or a link to nothing. Restore the folder, or give the other "
                "tower's alone."
            )
    main, *generators = map(read_one, there)
    return join(main, *generators) if generators else main


def join(
    main: portable.PortableModel, generator: portable.PortableModel
) -> portable.PortableModel:
    """A discriminator and its generator as one model.

    Args:
        main: the discriminator.
        generator: a masked LM, whose encoder is its main one.

    Raises:
        FormatError: if they are not a discriminator alone and a masked LM
            alone, if vocabularies differ, or if the generator has embeddings
            of its own that are not of its own width.
    """
    _require_alone(main, portable.REPLACED_TOKEN_HEAD)
    _require_alone(generator, portable.MASKED_LM_HEAD)
    if main.vocabulary != generator.vocabulary:
        raise portable.FormatError(
            "Both towers must have one vocabulary and tokenizer settings. "
            f"Received: different ones in {main.origin} and "
            f"{generator.origin}."
        )
    tying = _find_tying(main, generator)
    encoder = portable.rename_part(
        generator.tensors, portable.MAIN, portable.GENERATOR
    )
    head = portable.take_part(generator.tensors, portable.MASKED_LM_HEAD)
    own = {
        path: value
        for path, value in encoder.items()
        if tying == "none"
        or (tying == "embeddings" and "/embeddings/" not in path)
    }
    joined = dataclasses.replace(
        main,
        tensors={**main.tensors, **own, **head},
        generator=generator.encoder,
        tying=tying,
        step=max(main.step, generator.step),
        origin=f"{main.origin} and {generator.origin}",
        notes=tuple(dict.fromkeys(main.notes + generator.notes)),
    )
    layout.check(joined)
    return joined


def _require_alone(model: portable.PortableModel, head: str) -> None:
    """More would come along unseen, or be overwritten."""
    if model.parts != tuple(sorted((head, portable.MAIN))):
        raise portable.FormatError(
            "A discriminator is joined with its generator, each with its own "
            f"head alone, here {head}. Received: {model.origin} with "
            f"{', '.join(model.parts)}. Leave other parts out."
        )


def _find_tying(
    main: portable.PortableModel, generator: portable.PortableModel
) -> str:
    if main.encoder == generator.encoder and _are_equal(
        main, generator, f"{portable.MAIN}/"
    ):
        return "all"
    if _are_equal(main, generator, _EMBEDDINGS):
        return "embeddings"
    sizes = generator.encoder
    if sizes.embedding_size != sizes.hidden_size:
        raise portable.FormatError(
            "A generator with embeddings of its own must have them of its own "
            f"width. Received: {generator.origin}, embedding_size="
            f"{sizes.embedding_size}, hidden_size={sizes.hidden_size}, and "
            f"other embeddings than {main.origin}. Convert the two one by one."
        )
    return "none"


def _are_equal(
    main: portable.PortableModel,
    generator: portable.PortableModel,
    beginning: str,
) -> bool:
    mine, other = (
        {p: v for p, v in model.tensors.items() if p.startswith(beginning)}
        for model in (main, generator)
    )
    return mine.keys() == other.keys() and all(
        np.array_equal(mine[path], other[path]) for path in mine
    )


def split(
    model: portable.PortableModel,
) -> dict[str, portable.PortableModel]:
    """Models of one encoder each, by the name of their folder.

    Args:
        model: of any parts.

    Returns:
        `discriminator` and `generator`; or, for a model of one encoder, that
        alone under `.`.

    Raises:
        FormatError: for parts that belong to neither.
    """
    known = {portable.MAIN, portable.GENERATOR, portable.REPLACED_TOKEN_HEAD,
             portable.MASKED_LM_HEAD}  # fmt: skip
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    unknown = [part for part in model.parts if part not in known]
    if unknown:
        raise portable.FormatError(
            f"There is no class for {', '.join(unknown)} of {model.origin} "
            "there: encoders that see both sides, with a replaced-token or a "
            "masked-LM head, are all. Leave them out with --drop="
            f"{'|'.join(unknown)}."
        )
    if model.objective == "electric" and (
        portable.REPLACED_TOKEN_HEAD in model.parts
    ):
        raise portable.FormatError(
            "The logits of an Electric model are energies, which there is no "
            f"class for there. Received: {model.origin}. Leave its head out "
            f"with --drop={portable.REPLACED_TOKEN_HEAD}."
        )
    if model.generator is None:
        return {".": model}
    head = portable.take_part(model.tensors, portable.MASKED_LM_HEAD)
    mine = {
        path: value
        for path, value in model.tensors.items()
        if path not in head and not path.startswith(f"{portable.GENERATOR}/")
    }
    other = _generator_encoder(model) | head
    return {
        DISCRIMINATOR: dataclasses.replace(
            model, tensors=mine, generator=None, tying="embeddings"
        ),
        GENERATOR: dataclasses.replace(
            model,
            tensors=other,
            encoder=model.generator,
            generator=None,
            tying="embeddings",
        ),
    }


def _generator_encoder(
    model: portable.PortableModel,
) -> dict[str, np.ndarray]:
    """The generator's encoder, whole, called the main one."""
    if model.tying == "all":
        return portable.take_part(model.tensors, portable.MAIN)
    encoder = portable.rename_part(
        model.tensors, portable.GENERATOR, portable.MAIN
    )
    if model.tying == "embeddings":
        encoder |= {
            path: value
            for path, value in model.tensors.items()
            if path.startswith(_EMBEDDINGS)
        }
    return encoder
