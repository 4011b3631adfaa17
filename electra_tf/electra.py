"""A trained model as one object, for use from Python.

    import electra_tf

    electra = electra_tf.load("tiny-en")
    for word in electra.score(["The cat sat on the banana."])[0].words:
        print(word.text, word.replaced_probability)

`docs/python_api.md` has a page of examples.
"""

import os
import pathlib
import types
from collections.abc import Iterable
from typing import Any
from typing import Literal
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models
from electra_tf.export.models import pretrained
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import keras_models
from electra_tf.modeling import layers
from electra_tf.modeling import towers as towers_lib
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.sentences import packing
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

# [CLS], a piece, [SEP].
_MIN_LENGTH = 3
_LEVELS = ("sentence", "token")
# Their heads are neither a discriminator's nor a masked language model's.
_OTHER_HEADS = ("replace_mlm", "all_tokens_mlm")
_HEADS = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}


class Electra:
    """A discriminator, its generator and its tokenizer.

    `electra_tf.load` makes one from files, `untrained` one with random
    weights. The Keras models share weights where the networks do, and all
    methods use the weights as they are after a `fit`.

    Examples:
        >>> electra = Electra.untrained(
        ...     config.EncoderConfig(
        ...         vocab_size=0, embedding_size=8, hidden_size=8,
        ...         num_hidden_layers=1, num_attention_heads=2,
        ...         intermediate_size=16, max_position_embeddings=16,
        ...     ),
        ...     vocabulary_lib.Vocabulary(
        ...         (*vocabulary_lib.SPECIAL_TOKENS, "the", "cat", "sat", ".")
        ...     ),
        ... )
        >>> scored = electra.score(["The cat sat."])[0]
        >>> [word.text for word in scored.words]
        ['The', 'cat', 'sat', '.']
        >>> electra.discriminator(electra.tokenize(["The cat sat."])).shape
        TensorShape([1, 6])

    Attributes:
        discriminator: rows to `[B, S]` replaced-token logits, or None.
        encoder: rows to `[B, S, D]` states of the main encoder.
        generator: rows to `[B, S, V]` logits, or None; of a masked language
            model the model itself.
        tokenizer: texts to ids without special tokens.
        vocabulary: what the ids mean.
        config: sizes of the main encoder.
        objective: that it was trained with; empty where files do not say.
        origin: one line, where the weights come from.
        notes: what was left out or changed on the way, one line each.
    """

    def __init__(self, networks: "LoadedNetworks") -> None:
        main, generator = networks.main, networks.generator
        self.vocabulary = networks.vocabulary
        self.config = towers_lib.resolve_vocab_size(
            networks.settings, self.vocabulary.size
        )
        self.tokenizer = tokenizer_lib.Tokenizer(self.vocabulary)
        self.objective = networks.objective
        self.origin = networks.origin
        self.notes = networks.notes
        self.encoder = keras_models.EncoderModel(
            main.encoder, self.config, name="electra_encoder"
        )
        is_discriminator = isinstance(main, discriminator_lib.Discriminator)
        self.discriminator: keras_models.DiscriminatorModel | None = None
        if is_discriminator:
            self.discriminator = keras_models.DiscriminatorModel(
                main, self.config, name="electra_discriminator"
            )
        sizes = networks.generator_settings
        if isinstance(main, generators.MaskedLMGenerator):
            generator, sizes = main, self.config
        self.generator: keras_models.MaskedLMModel | None = None
        if isinstance(generator, generators.MaskedLMGenerator):
            self.generator = keras_models.MaskedLMModel(
                generator, sizes or self.config, name="electra_generator"
            )
        self._filler: mask_filling.MaskFiller | None = None
        if isinstance(generator, mask_filling.NETWORKS):
            self._filler = mask_filling.MaskFiller(
                generator, self.tokenizer, self.config.max_position_embeddings
            )
        module = pretrained.PretrainedModule
        if is_discriminator:
            module = pretrained.DetectorModule
        self._model = text_models.InMemoryModel(module(main, self.tokenizer))

    @classmethod
    def untrained(
        cls,
        settings: config.EncoderConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        generator: config.GeneratorConfig | None = None,
        precision: str = "float32",
    ) -> "Electra":
        """A model with random weights, to be trained or tried.

        Keras draws the weights: `keras.utils.set_random_seed` before makes
        them the same every time.

        Args:
            settings: sizes; `vocab_size` 0 takes the vocabulary's.
            vocabulary: what the ids mean.
            generator: kind and sizes of the generator; None for the default.
            precision: of the products, one of `config.PRECISIONS`.

        Raises:
            ValueError: if the sizes do not fit each other.
        """
        schema.require_choice("precision", precision, config.PRECISIONS)
        sizes = towers_lib.resolve_vocab_size(settings, vocabulary.size)
        dtype = layers.dtype_policy(precision)
        chosen = generator or config.GeneratorConfig()
        main = towers_lib.build_discriminator(sizes, dtype)
        proposer = towers_lib.build_generator(
            chosen, main.encoder, sizes, dtype=dtype
        )
        return cls(
            LoadedNetworks(
                main,
                proposer,
                sizes,
                chosen.encoder_config(sizes),
                vocabulary,
                origin="random weights",
            )
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        format: str = "",
        generator_path: str | os.PathLike[str] | None = None,
        precision: str = "float32",
    ) -> "Electra":
        """Loads a trained model from files; `electra_tf.load` says how."""
        return cls(load_networks(path, format, generator_path, precision))

    def tokenize(
        self,
        texts: Iterable[str],
        pairs: Iterable[str] | None = None,
        max_length: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Makes rows that the Keras models take: `[CLS] text [SEP]`, padded.

        With pairs `[CLS] text [SEP] pair [SEP]`, the second part in segment
        1; a pair without any token is left out. They are the rows that
        fine-tuning makes. A row that is too long loses tokens from the end of
        whichever text is longer.

        Args:
            texts: N of them.
            pairs: N second texts, or None.
            max_length: tokens at which rows are cut; None for the model's
                number of positions.

        Returns:
            `input_ids`, `input_mask` and `segment_ids`, `[N, S]` int32, S the
            length of the longest row.

        Raises:
            ValueError: for texts or a length that cannot be.
        """
        first = text_models.check_texts("texts", texts)
        second = None
        if pairs is not None:
            second = text_models.check_texts("pairs", pairs)
            if len(second) != len(first):
                raise ValueError(
                    "`pairs` must hold one text for each of `texts`. "
                    f"Received: {len(second)} for {len(first)}."
                )
        packed = packing.pack_texts(
            self.tokenizer,
            tf.constant(first, tf.string),
            None if second is None else tf.constant(second, tf.string),
            self._check_length(max_length, is_pair=second is not None),
        )
        rows = rows_lib.pad(
            packed.ids, packed.segment_starts, pad_id=self.vocabulary.pad_id
        )
        return dict(zip(keras_models.FEATURES, rows, strict=True))

    def score(self, texts: Iterable[str]) -> list[scoring.ScoredText]:
        """Scores how suspicious every word is.

        What is longer than the model's positions is cut.

        Raises:
            ValueError: if the model has no discriminator.
        """
        if not self.can_score:
            raise ValueError(
                "`score` needs a discriminator that detects replaced tokens. "
                f"Received: {self!r}. Load a discriminator."
            )
        checked = text_models.check_texts("texts", texts)
        return scoring.score(self._model, checked)

    def features(
        self,
        texts: Iterable[str],
        level: Literal["sentence", "token"] = "sentence",
    ) -> Any:
        """Computes the last layer of the encoder.

        Args:
            texts: any number, of any lengths.
            level: `sentence` for the state of `[CLS]`, `token` for those of
                all tokens, `[CLS]` and `[SEP]` included.

        Returns:
            `[N, D]` float32; or a list of N arrays `[tokens, D]` float32.
        """
        schema.require_choice("level", level, _LEVELS)
        name = f"{level}_features"
        answers = self._model.predict(
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

        Returns:
            Per text, per mask: the best `top_k` tokens, each with `token` and
            `probability`, most probable first.

        Raises:
            ValueError: if the model has no generator, or a text no mask that
                the model sees.
        """
        if self._filler is None:
            raise ValueError(
                "`fill_masks` needs a generator. Received: "
                f"{self!r}. Load a folder that holds one, such as that of a "
                "pre-training run, or name one: "
                "electra_tf.load(path, generator_path=...)."
            )
        checked = text_models.check_texts("texts", texts)
        return self._filler.fill(checked, top_k)

    @property
    def can_score(self) -> bool:
        """Whether `score` has an answer."""
        # The logits of Electric's discriminator are energies.
        return self.discriminator is not None and self.objective != "electric"

    @property
    def can_fill_masks(self) -> bool:
        """Whether `fill_masks` has an answer."""
        return self._filler is not None

    @property
    def summary(self) -> str:
        """Its parts and their sizes in one line."""
        sizes = self.config
        parts = [
            f"{self._kind} of {_describe_layers(sizes)}",
            f"{sizes.vocab_size:,} tokens",
            f"{sizes.max_position_embeddings} positions",
            f"{self.encoder.count_params():,} encoder weights",
        ]
        if self.discriminator is not None and self.generator is not None:
            generator = _describe_layers(self.generator.settings)
            parts.append(f"generator of {generator}")
        return ", ".join(parts)

    @property
    def _kind(self) -> str:
        if self.discriminator is None:
            has_none = self.generator is None
            return "encoder" if has_none else "masked language model"
        return "discriminator" if self.can_score else "energy model"

    def __repr__(self) -> str:
        return f"Electra({self.summary}; {self.origin})"

    def _check_length(self, max_length: int | None, is_pair: bool) -> int:
        most = self.config.max_position_embeddings
        least = packing.MIN_LENGTH if is_pair else _MIN_LENGTH
        if max_length is None:
            return most
        if not least <= max_length <= most:
            raise ValueError(
                f"`max_length` must be {least} to {most}, the model's "
                f"positions. Received: {max_length}."
            )
        return max_length


def _describe_layers(sizes: config.EncoderConfig) -> str:
    count, width = sizes.num_hidden_layers, sizes.hidden_size
    return f"{count} layer{'s' * (count != 1)}, {width} wide"


class LoadedNetworks(NamedTuple):
    """The networks of a model with weights, and what belongs to them."""

    # A `Discriminator`, a `MaskedLMGenerator`, or an object with an `encoder`
    # alone, where the files hold neither head.
    main: Any
    generator: Any  # any of `generators`, or None
    settings: config.EncoderConfig  # sizes of the main encoder
    # Sizes of the generator's encoder, if it has one.
    generator_settings: config.EncoderConfig | None
    vocabulary: vocabulary_lib.Vocabulary  # what the ids mean
    # That it was trained with; empty where files do not say.
    objective: str = ""
    origin: str = ""  # one line, where the weights come from
    # What was left out or changed in reading, one line each.
    notes: tuple[str, ...] = ()


def load_networks(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
) -> LoadedNetworks:
    """Loads the networks of one model, or of two that belong together.

    Arguments and errors are those of `electra_tf.load`.
    """
    schema.require_choice("precision", precision, config.PRECISIONS)
    loaded = _build(reading.read(pathlib.Path(path), format), precision)
    if generator_path is None:
        return loaded
    second = _build(reading.read(pathlib.Path(generator_path)), precision)
    if not tokenizer_files.are_alike(loaded.vocabulary, second.vocabulary):
        raise ValueError(
            "A generator must have the vocabulary of the model that it is "
            f"loaded with. Received: {loaded.origin}; and {second.origin} "
            "with other tokens or settings."
        )
    generator, sizes = second.generator, second.generator_settings
    if generator is None:
        generator, sizes = second.main, second.settings
    if not isinstance(generator, mask_filling.NETWORKS):
        raise ValueError(
            "`generator_path` must hold a masked language model. Received: "
            f"{second.origin}, a model without one."
        )
    return loaded._replace(
        generator=generator,
        generator_settings=sizes,
        notes=loaded.notes + second.notes,
    )


def _build(model: portable.PortableModel, precision: str) -> LoadedNetworks:
    if model.vocabulary is None:
        raise ValueError(
            "A model must come with its vocabulary, or its ids would mean "
            f"nothing. Received: none ({model.origin}). Put vocab.txt, and "
            "tokenizer_config.json for a cased one, beside the weights."
        )
    notes = model.notes
    if _HEADS & set(model.parts) and model.objective not in _OTHER_HEADS:
        built = reading.build_towers(model, precision)
    else:
        encoder = encoder_lib.build_encoder(
            model.encoder,
            towers_lib.MAIN_ENCODER,
            dtype=layers.dtype_policy(precision),
        )
        reading.assign(encoder.variables, model)
        built = towers_lib.Towers(None, types.SimpleNamespace(encoder=encoder))
        left_out = sorted(set(model.parts) - {portable.MAIN})
        if left_out:
            listed = ", ".join(left_out)
            notes += (f"the encoder alone was loaded, without {listed}",)
    return LoadedNetworks(
        built.main,
        built.generator,
        model.encoder,
        model.generator,
        model.vocabulary,
        model.objective,
        model.origin,
        notes,
    )
