"""Splits a discriminator and its generator into two models, and joins them."""

import dataclasses

import numpy as np

from electra_tf import errors
from electra_tf.formats import portable
from electra_tf.formats.portable import PortableModel


def split(model: PortableModel) -> dict[str, PortableModel]:
    """Splits a model into a `discriminator` and a `generator`, a masked LM.

    Both get the embeddings that they share. A model of one encoder is `.`.
    """
    if model.generator is None:
        return {".": model}
    tensors = model.tensors
    encoder = portable.MAIN if model.tying == "all" else portable.GENERATOR
    own = portable.rename_part(tensors, encoder, portable.MAIN)
    own |= portable.take_part(tensors, portable.MASKED_LM_HEAD)
    if model.tying == "embeddings":
        own |= portable.take_part(tensors, f"{portable.MAIN}/embeddings")
    others = portable.drop_part(
        portable.drop_part(tensors, portable.GENERATOR), portable.MASKED_LM_HEAD
    )
    main = dataclasses.replace(
        model, tensors=others, generator=None, tying="embeddings"
    )
    generator = dataclasses.replace(main, tensors=own, encoder=model.generator)
    return {"discriminator": main, "generator": generator}


def join(main: PortableModel, generator: PortableModel) -> PortableModel:
    """Joins a discriminator and its generator; equal weights become shared.

    Raises `ModelError` for other parts, vocabularies or sizes.
    """
    for head, model in (
        (portable.REPLACED_TOKEN_HEAD, main),
        (portable.MASKED_LM_HEAD, generator),
    ):
        # Other parts would be overwritten, or joined unchecked.
        if set(model.parts) != {head, portable.MAIN}:
            raise errors.ModelError(
                "A discriminator and its generator must have one encoder and "
                f"one head each, here {head}. Received: {model.origin} with "
                f"{', '.join(model.parts)}. Leave other parts out."
            )
    if main.vocabulary != generator.vocabulary:
        raise errors.ModelError(
            "Both models must have one vocabulary and tokenizer settings. "
            f"Received: different ones in {main.origin} and {generator.origin}."
        )
    tying = _find_tying(main, generator)
    own = portable.take_part(generator.tensors, portable.MASKED_LM_HEAD)
    if tying != "all":
        names = portable.MAIN, portable.GENERATOR
        own |= portable.rename_part(generator.tensors, *names)
    if tying == "embeddings":
        own = portable.drop_part(own, f"{portable.GENERATOR}/embeddings")
    return dataclasses.replace(
        main,
        tensors={**main.tensors, **own},
        generator=generator.encoder,
        tying=tying,
        step=max(main.step, generator.step),
        origin=f"{main.origin} and {generator.origin}",
        notes=tuple(dict.fromkeys(main.notes + generator.notes)),
    )


def _find_tying(main: PortableModel, generator: PortableModel) -> str:
    def share(part: str) -> bool:
        both = main.tensors, generator.tensors
        one, other = (portable.take_part(own, part) for own in both)
        return one.keys() == other.keys() and all(
            np.array_equal(one[path], other[path]) for path in one
        )

    if main.encoder == generator.encoder and share(portable.MAIN):
        return "all"
    if share(f"{portable.MAIN}/embeddings"):
        return "embeddings"
    sizes = generator.encoder
    parts = portable.GENERATOR, portable.MASKED_LM_HEAD
    if sizes.embedding_size != sizes.hidden_size:
        raise errors.ModelError(
            "A generator with its own embeddings must have embedding_size="
            f"hidden_size. Received: {generator.origin}, embedding_size="
            f"{sizes.embedding_size}, hidden_size={sizes.hidden_size}, and "
            f"other embeddings than {main.origin}. Convert only one of the "
            f"two: {portable.without(*parts)}."
        )
    return "none"
