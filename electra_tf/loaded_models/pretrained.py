"""Loads models; pre-trained ones as Python objects (`docs/python_api.md`)."""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models
from electra_tf.export.models import pretrained
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.formats import pairs
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.loaded_models import finetuned
from electra_tf.modeling import keras_models
from electra_tf.modeling import layers
from electra_tf.modeling import networks as networks_lib
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

_MIN_LENGTH = 3  # [CLS], a piece, [SEP]
_KINDS = {
    None: "encoder",
    networks_lib.Answer.REPLACED: "discriminator",
    networks_lib.Answer.ENERGY: "energy model",
}


class PretrainedModel(finetuned.LoadedModel):
    """A discriminator, its generator and its tokenizer.

    `electra_tf.load` makes one from files, `untrained` one with random
    weights. The Keras models share weights where the networks do, and all
    methods use the weights as they are after a `fit`.

    Examples:
        >>> pieces = (*vocabulary_lib.SPECIAL_TOKENS, "the", "cat", "sat", ".")
        >>> electra = PretrainedModel.untrained(
        ...     config.EncoderConfig(vocab_size=0, num_hidden_layers=1),
        ...     vocabulary_lib.Vocabulary(pieces),
        ... )
        >>> [word.text for word in electra.score(["The cat sat."])[0].words]
        ['The', 'cat', 'sat', '.']
        >>> electra.discriminator(electra.tokenize(["The cat sat."])).shape
        TensorShape([1, 6])

    Attributes:
        discriminator: rows to `[B, S]` replaced-token logits, or None.
        encoder: rows to `[B, S, D]` states of the main encoder.
        generator: rows to `[B, S, V]` logits, or None; of a masked language
            model the model itself.
        tokenizer: texts to ids without special tokens.
        text_model: what answers raw text, by the signatures of an export.
        networks: the layers; `main` is what the objective trains, or an
            object with an `encoder` alone, where the files hold no head.
        config: sizes of the main encoder.
        vocabulary: what the ids mean.
        origin: one line, where the weights come from.
        objective: that it was trained with; empty if files do not say.
        answer: what the main network says of a token; None without a head.
        notes: what was left out or changed in reading, one line each.
    """

    def __init__(
        self,
        networks: networks_lib.Networks,
        described: portable.PortableModel,
        answer: networks_lib.Answer = networks_lib.Answer.REPLACED,
    ) -> None:
        generator, main = self.networks = networks
        # The model as files describe it, without tensors.
        self._portable = described
        self.objective, self.config = described.objective, described.encoder
        self.origin, self.notes = described.origin, described.notes
        self.vocabulary = described.require_vocabulary()
        self.tokenizer = tokenizer_lib.Tokenizer(self.vocabulary)
        name = "electra_encoder"
        self.encoder = keras_models.EncoderModel(main.encoder, name=name)
        self.discriminator: keras_models.DiscriminatorModel | None = None
        if isinstance(main, networks_lib.Discriminator):
            self.discriminator = keras_models.DiscriminatorModel(
                main, name="electra_discriminator"
            )
        self.answer = answer if hasattr(main, "head") else None
        self.text_model = text_models.InMemoryModel(
            pretrained.build_module(answer, main, self.tokenizer)
        )
        self.generator: keras_models.MaskedLMModel | None = None
        if isinstance(generator, networks_lib.MaskedLMGenerator):
            self.generator = keras_models.MaskedLMModel(
                generator, name="electra_generator"
            )
        self._filler: mask_filling.MaskFiller | None = None
        if isinstance(generator, mask_filling.NETWORKS):
            self._filler = mask_filling.MaskFiller(
                generator, self.tokenizer, self.config.max_position_embeddings
            )

    @classmethod
    def untrained(
        cls,
        settings: config.EncoderConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        generator: config.GeneratorConfig | None = None,
        precision: str = "float32",
    ) -> "PretrainedModel":
        """A model with random weights, to be trained or tried.

        Keras draws the weights: `keras.utils.set_random_seed` before makes
        them the same every time. `settings.vocab_size` 0 takes the
        vocabulary's; `generator` None takes the default kind and sizes.
        Raises `ValueError` if the sizes do not fit each other.
        """
        schema.require_choice("precision", precision, config.PRECISIONS)
        sizes = networks_lib.resolve_vocab_size(settings, vocabulary.size)
        dtype = layers.dtype_policy(precision)
        chosen = generator or config.GeneratorConfig()
        main = networks_lib.Discriminator(sizes, dtype=dtype)
        proposer = networks_lib.build_generator(
            chosen, main.encoder, None, dtype
        )
        described = portable.PortableModel(
            {}, sizes, vocabulary=vocabulary, origin="random weights"
        )
        if proposer.variables:
            described = dataclasses.replace(
                described,
                generator=chosen.encoder_config(sizes),
                tying=chosen.weight_tying,
            )
        return cls(networks_lib.Networks(proposer, main), described)

    @classmethod
    def from_portable(
        cls, model: portable.PortableModel, precision: str = "float32"
    ) -> "PretrainedModel":
        """A model that was read; of a fine-tuned one the encoder."""
        networks = reading.build_networks(model, precision)
        answer = model.trained_by.answer
        described = dataclasses.replace(model, tensors={})
        if not hasattr(networks.main, "head"):
            if left_out := [p for p in model.parts if p != portable.MAIN]:
                listed = ", ".join(left_out)
                note = f"the encoder alone was loaded, without {listed}"
                described = described.with_notes(note)
            described = dataclasses.replace(
                described, generator=None, task=None
            )
        elif answer is networks_lib.Answer.MASKED_LM:
            networks = networks._replace(generator=networks.main)
        return cls(networks, described, answer)

    def tokenize(
        self,
        texts: Iterable[str],
        pairs: Iterable[str] | None = None,
        max_length: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Makes rows that the Keras models take: `[CLS] text [SEP]`, padded.

        With pairs `[CLS] text [SEP] pair [SEP]`, the second part in segment
        1; a pair without any token is left out. They are the rows that
        fine-tuning makes. A row of more than `max_length` tokens (None: the
        model's positions) loses some from the end of whichever text is longer.

        Returns `input_ids`, `input_mask` and `segment_ids`, `[N, S]` int32, S
        the length of the longest row.
        """
        first = text_models.check_texts("texts", texts)
        second, least = None, _MIN_LENGTH
        if pairs is not None:
            checked = text_models.check_texts("pairs", pairs)
            if len(checked) != len(first):
                raise ValueError(
                    "`pairs` must hold one text for each of `texts`. "
                    f"Received: {len(checked)} for {len(first)}."
                )
            second, least = tf.constant(checked, tf.string), rows_lib.MIN_LENGTH
        most = self.config.max_position_embeddings
        length = most if max_length is None else max_length
        if not least <= length <= most and max_length is not None:
            raise ValueError(
                f"`max_length` must be {least} to {most}, the model's "
                f"positions. Received: {max_length}."
            )
        packed = rows_lib.pack_texts(
            self.tokenizer, tf.constant(first, tf.string), second, length
        )
        pad_id = self.vocabulary.pad_id
        rows = rows_lib.pad(packed.ids, packed.segment_starts, pad_id=pad_id)
        return dict(zip(keras_models.FEATURES, rows, strict=True))

    def count_pieces(self, texts: Iterable[str]) -> np.ndarray:
        """Counts the tokens of each text, without special ones: `[N]` int64."""
        checked = text_models.check_texts("texts", texts)
        ids = self.tokenizer.tokenize(tf.constant(checked, tf.string))
        return ids.row_lengths().numpy()

    def score(self, texts: Iterable[str]) -> list[scoring.ScoredText]:
        """Scores how suspicious every word is.

        What is longer than the model's positions is cut. Raises `ValueError`
        if the model has no discriminator.
        """
        if not self.can_score:
            raise ValueError(
                "`score` needs a discriminator that detects replaced tokens. "
                f"Received: {self!r}. Load a discriminator."
            )
        return self.text_model.score(text_models.check_texts("texts", texts))

    def features(
        self,
        texts: Iterable[str],
        level: Literal["sentence", "token"] = "sentence",
    ) -> Any:
        """Computes the last layer of the encoder, for texts of any lengths.

        Returns `[N, D]` float32, the states of `[CLS]`; or of `token` a list
        of N arrays `[tokens, D]` float32, `[CLS]` and `[SEP]` included.
        """
        schema.require_choice("level", level, ("sentence", "token"))
        name = f"{level}_features"
        answers = self.text_model.predict(
            "features_text",
            outputs=(name, "num_tokens"),
            texts=text_models.check_texts("texts", texts),
        )
        if level == "token":
            return [row[name][: row["num_tokens"]] for _, row in answers]
        states = [row[name] for _, row in answers]
        empty = np.zeros([0, self.config.hidden_size], np.float32)
        return np.stack(states) if states else empty

    def fill_masks(
        self, texts: Iterable[str], top_k: int = 5
    ) -> list[list[list[mask_filling.Filling]]]:
        """Finds what the generator puts in the place of each `[MASK]`.

        Returns per text, per mask, the best `top_k` tokens, each with `token`
        and `probability`, most probable first. Raises `ValueError` if the
        model has no generator, or a text no mask that the model sees.
        """
        if self._filler is None:
            raise ValueError(
                "`fill_masks` needs a generator. Received: "
                f"{self!r}. Load a folder that holds one, such as that of a "
                "pre-training run, or name one: "
                "electra_tf.load(path, generator_path=...)."
            )
        return self._filler.fill(text_models.check_texts("texts", texts), top_k)

    def to_portable(self) -> portable.PortableModel:
        """The model as every format is written from it."""
        tensors = {v.path: v.numpy() for v in self.variables}
        return dataclasses.replace(self._portable, tensors=tensors)

    @property
    def variables(self) -> list[Any]:
        """The weights of both networks; shared ones twice."""
        return [v for n in self.networks if n is not None for v in n.variables]

    @property
    def can_score(self) -> bool:
        """Whether `score` has an answer."""
        return self.answer is networks_lib.Answer.REPLACED

    @property
    def can_fill_masks(self) -> bool:
        """Whether `fill_masks` has an answer."""
        return self._filler is not None

    @property
    def summary(self) -> str:
        """Its parts and their sizes in one line."""
        sizes, generator = self.config, self.generator
        kind = _KINDS.get(self.answer, "masked language model")
        parts = [
            f"{kind} of {_describe_layers(sizes)}",
            f"{sizes.vocab_size:,} tokens",
            f"{sizes.max_position_embeddings} positions",
            f"{self.encoder.count_params():,} encoder weights",
        ]
        if generator is not None and generator.layer is not self.networks.main:
            layers = _describe_layers(generator.settings)
            parts.append(f"generator of {layers}")
        return ", ".join(parts)


def _describe_layers(sizes: config.EncoderConfig) -> str:
    count, width = sizes.num_hidden_layers, sizes.hidden_size
    return f"{count} layer{'s' * (count != 1)}, {width} wide"


def load_pretrained(path: str | pathlib.Path) -> PretrainedModel:
    """Loads a pre-trained model, or the encoder of a fine-tuned one."""
    return PretrainedModel.from_portable(reading.read_model(path))


def load(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
    task: str = "",
) -> PretrainedModel | finetuned.FinetunedModel:
    """Loads what lies at a path; `electra_tf.load` says how."""
    schema.require_choice("precision", precision, config.PRECISIONS)
    folder = installed.find_model(path)
    trial = results.find_trial(folder, task)
    schema.require(
        not (trial and format),
        "`format` is of a model from elsewhere. Received: "
        f"{format!r} for {folder}, a fine-tuning. Leave it out.",
    )
    model = None if trial else reading.read_model(folder, format)
    if model is not None and model.task is None and not task:
        if generator_path is not None:
            second = reading.read_model(storage.path(generator_path))
            model = pairs.join(
                pairs.split(model).get("discriminator", model),
                pairs.split(second).get("generator", second),
            )
        return PretrainedModel.from_portable(model, precision)
    schema.require(
        not generator_path and (trial is not None or not task),
        "`task` is for a fine-tuning on several, `generator_path` for a "
        f"pre-trained model. Received: one of them for {folder}. Leave it out.",
    )
    if model is None:
        return finetuned.FinetunedModel(trial or folder, task, precision)
    with tempfile.TemporaryDirectory() as scratch:
        portable_trial.write_trial(model, pathlib.Path(scratch))
        loaded = finetuned.FinetunedModel(pathlib.Path(scratch), "", precision)
    loaded.origin, loaded.notes = model.origin, model.notes
    return loaded
