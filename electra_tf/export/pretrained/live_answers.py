"""A model in memory that answers as an export of it would.

It has `answer_texts` of `loaded_export.LoadedExport`, so that the clients of
exports (`scoring`) take either.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.export.clients import loaded_export
from electra_tf.export.pretrained import serving_module


class LiveAnswers:
    """Answers signatures that take raw text, with the weights as they are now.

    Args:
        module: computes the answers.
    """

    def __init__(self, module: serving_module.ServingModule) -> None:
        self._module = module
        self._functions: dict[tuple[str, tuple[str, ...]], Any] = {}

    def answer_texts(
        self,
        signature: str,
        texts: Sequence[str | bytes],
        names: tuple[str, ...] = (),
    ) -> list[tuple[bytes, loaded_export.Row]]:
        """Every text with what a signature answers for it.

        Texts of about one length are computed together.

        Args:
            signature: one that takes `texts`.
            texts: bytes are taken as UTF-8.
            names: outputs that are wanted; nothing else is computed. Empty:
                all of them.

        Returns:
            In the order of the texts: the text in UTF-8, and name to array
            without the batch's axis.
        """
        data = [
            text if isinstance(text, bytes) else text.encode("utf-8")
            for text in texts
        ]
        function = self._trace(signature, names)

        def ask(batch: Sequence[tuple[bytes, ...]]) -> loaded_export.Row:
            answers = function(tf.constant([text for (text,) in batch]))
            return {name: value.numpy() for name, value in answers.items()}

        rows = loaded_export.answer_in_batches([(text,) for text in data], ask)
        return list(zip(data, rows, strict=True))

    def _trace(
        self, signature: str, names: tuple[str, ...]
    ) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
        def answer(texts: tf.Tensor) -> dict[str, tf.Tensor]:
            answers = self._module.answer(signature, texts=texts)
            return {name: answers[name] for name in names or answers}

        key = (signature, names)
        if key not in self._functions:
            function = tf.function(answer, autograph=False)
            self._functions[key] = function.get_concrete_function(
                tf.TensorSpec([None], tf.string)
            )
        return self._functions[key]
