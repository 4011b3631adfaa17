"""A discriminator and its generator as two models, and the two as one again.

Hugging Face knows one encoder at a time, so both of its models have the
embeddings that ours share. Shared weights are recognized by their bits.
"""

import dataclasses

import numpy as np

from electra_tf import errors
from electra_tf.formats import layout
from electra_tf.formats import portable

DISCRIMINATOR, GENERATOR = "discriminator", "generator"
_EMBEDDINGS = f"{portable.MAIN}/embeddings/"


def join(
    main: portable.PortableModel, generator: portable.PortableModel
) -> portable.PortableModel:
    """A discriminator and its generator as one model.

    Args:
        main: the discriminator.
        generator: a masked LM, whose encoder is its main one.

    Raises:
        ModelError: if they are not a discriminator alone and a masked LM
            alone, if vocabularies differ, or if the generator has embeddings
            of its own that are not of its own width.
    """
    _require_alone(main, portable.REPLACED_TOKEN_HEAD)
    _require_alone(generator, portable.MASKED_LM_HEAD)
    if main.vocabulary != generator.vocabulary:
        raise errors.ModelError(
            "Both models must have one vocabulary and tokenizer settings. "
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
        raise errors.ModelError(
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
        raise errors.ModelError(
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
        ModelError: for parts that belong to neither.
    """
    known = {portable.MAIN, portable.GENERATOR, portable.REPLACED_TOKEN_HEAD,
             portable.MASKED_LM_HEAD}  # fmt: skip
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
    if model.objective == "electric" and (
        portable.REPLACED_TOKEN_HEAD in model.parts
    ):
        raise errors.ModelError(
            "The logits of an Electric model are energies, for which Hugging "
            f"Face has no class. Received: {model.origin}. Leave its head out "
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
