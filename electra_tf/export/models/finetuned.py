"""Fine-tuned models as exports answer for them: an encoder, a task's head.

Rows are laid out and answers are read by the code of `tasks` that training
uses, here inside the graph.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.export.models import exported_module
from electra_tf.export.models import length_buckets
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions as questions_lib
from electra_tf.tasks.question_answering import spans as spans_lib
from electra_tf.tasks.tagging import spans as tag_spans
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = dict[str, tf.Tensor]


class FinetunedModule(exported_module.ExportedModule):
    """A fine-tuned model behind the signatures of its kind of task.

    A subclass has `answer_text`, for raw text, and `answer_ids`, for rows of
    ids, which it checks.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: task_heads.TaskHead,
        tokenizer: tokenizer_lib.Tokenizer,
        task: Any,
        max_length: int = 0,
    ) -> None:
        least = rows_lib.MIN_LENGTH
        super().__init__(encoder, [head], tokenizer, max_length, least)
        self.task = task
        self._network.head = head

    def compute_answers(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Answers for raw text, or for rows of ids."""
        answer = "answer_text" if signature.endswith("_text") else "answer_ids"
        return getattr(self, answer)(**inputs)

    def pad(self, ids: tf.RaggedTensor, segment_starts: tf.Tensor) -> Any:
        """Ids, mask and segments of rows, `[B, S]`."""
        pad_id = self.tokenizer.vocabulary.pad_id
        return rows_lib.pad(ids, segment_starts, pad_id=pad_id)

    def apply_head(self, *rows: tf.Tensor, **features: tf.Tensor) -> Tensors:
        """Outputs of the head for rows, all at once."""
        hidden = self._network.encoder(*rows).sequence_output
        names = ("input_ids", "input_mask", "segment_ids")
        tokens = dict(zip(names, rows, strict=True))
        return self._network.head.predict(hidden, tokens | features)

    def apply_head_in_buckets(
        self, outputs: Sequence[str], *rows: tf.Tensor, **features: tf.Tensor
    ) -> Tensors:
        """Some outputs of the head, in buckets of similar length.

        Features are positions in the row, `[B, W]` int32.
        """
        lengths = length_buckets.count_columns(rows[1])
        for positions in features.values():
            # A position may be asked for that has no token.
            last = tf.reduce_max(tf.pad(positions, [[0, 0], [0, 1]]), 1)
            lengths = tf.maximum(lengths, last + 1)

        def compute_rows(chosen: length_buckets.Rows) -> Tensors:
            computed = self.apply_head(
                *map(chosen.trim, rows),
                **{name: chosen.pick(v) for name, v in features.items()},
            )
            return {name: computed[name] for name in outputs}

        return self.compute_in_buckets(compute_rows, rows[1], lengths)


class SentenceModule(FinetunedModule):
    """Classes or numbers of a text, or of a pair of texts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = self.task.kind

    @property
    def signature_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Raw text first."""
        family = self.task.signature
        text = "pair_text" if self.task.has_pairs else "text"
        return f"{family}_{text}", f"{family}_ids"

    def answer_text(
        self, texts: tf.Tensor, text_pairs: tf.Tensor | None = None
    ) -> Tensors:
        """Answers for texts, or for pairs of texts."""
        if text_pairs is not None:
            texts, text_pairs = exported_module.check_pairs(
                texts=texts, text_pairs=text_pairs
            )
        packed = rows_lib.pack_texts(
            self.tokenizer, texts, text_pairs, self.max_length
        )
        return self._answer(*self.pad(packed.ids, packed.segment_starts)) | {
            "num_tokens": tf.cast(packed.ids.row_lengths(), tf.int32),
            "num_truncated": tf.cast(packed.num_truncated, tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """Answers for rows of ids."""
        return self._answer(*self.check_ids(**inputs))

    def _answer(self, *rows: tf.Tensor) -> Tensors:
        outputs = [self.task.head_output]
        return self.task.answer(self.apply_head_in_buckets(outputs, *rows))


class TaggingModule(FinetunedModule):
    """A tag for every word."""

    kind = "tagging"
    signature_names = ("tag_text", "tag_ids")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        labels, scheme = self.task.labels, self.task.conventions.scheme
        # Tags as they are given back, and after a word of the same kind; last
        # those of words that were not seen, and of padding.
        rest = [tag_spans.OUTSIDE if scheme else "", ""]
        self._tags, self._next_tags = (
            [*(tag_spans.translate(t, scheme, f) for t in labels), *rest]
            for f in (False, True)
        )
        kinds = [label.partition("-")[2] for label in labels]
        self._kinds = [*map(kinds.index, kinds), -1, -1]
        self._builder = words_lib.WordRowBuilder(
            self.tokenizer, self.max_length, self.task.cuts_early
        )

    def answer_text(self, texts: tf.Tensor) -> Tensors:
        """Words with tags."""
        with tf.device("/CPU:0"):
            is_apart = self.task.conventions.splits_punctuation
            found = words_lib.split_text(texts, is_apart)
        rows = self._builder.build(found.words)
        padded = self.pad(rows.ids, tf.zeros([rows.ids.nrows()], tf.int64))
        answers = self._answer(rows.positions.to_tensor(0), *padded)
        best, probabilities = (
            tf.RaggedTensor.from_tensor(
                answers[name], rows.positions.row_lengths()
            ).values
            for name in ("best", "tag_probabilities")
        )
        padding = len(self._tags) - 1
        best = tf.where(rows.positions.values > 0, best, padding - 1)
        # The words of all rows in order are those of all texts.
        words = found.words
        best = words.with_values(best).to_tensor(padding)
        starts, ends = (
            tf.cast(places.to_tensor(export_metadata.NO_WORD), tf.int32)
            for places in (found.starts, found.ends)
        )
        return {
            "words": words.to_tensor(""),
            "tags": self._write_tags(best),
            "tag_probabilities": words.with_values(probabilities).to_tensor(),
            "tagged_starts": starts,
            "tagged_ends": ends,
            "num_words": tf.cast(words.row_lengths(), tf.int32),
            "num_tokens": tf.cast(rows.num_tokens, tf.int32),
            "num_truncated": tf.cast(rows.num_truncated, tf.int32),
        }

    def answer_ids(self, word_positions: tf.Tensor, **rows: Any) -> Tensors:
        """Tags for rows of ids with the positions of words."""
        ids, mask, segments = self.check_ids(**rows)
        size = tf.shape(ids)
        is_token = (word_positions >= 0) & (word_positions < size[1])
        check = exported_module.require(
            (tf.shape(word_positions)[0] == size[0]) & is_token,
            "`word_positions` must be tokens of the row, from 0, in as many "
            "rows as `input_ids`.",
            word_positions,
        )
        with tf.control_dependencies([check]):
            positions = tf.identity(word_positions)
        answers = self._answer(positions, ids, mask, segments)
        return answers | {"tags": self._write_tags(answers["best"])}

    def _answer(self, positions: tf.Tensor, *rows: tf.Tensor) -> Tensors:
        """Labels of the words at positions `[B, W]`, 0 for none."""
        logits = self.apply_head_in_buckets(
            ["logits"], *rows, word_positions=positions
        )["logits"]
        is_seen = positions > 0
        best = tf.argmax(logits, axis=2, output_type=tf.int32)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), 2)
        return {
            "best": tf.where(is_seen, best, len(self._tags) - 1),
            "tag_probabilities": tf.where(is_seen, probabilities, 0.0),
            "tag_logits": tf.where(tf.expand_dims(is_seen, 2), logits, 0.0),
        }

    def _write_tags(self, best: tf.Tensor) -> tf.Tensor:
        """Tags of words, `[B, W]`, in the training file's scheme."""
        kinds = tf.gather(self._kinds, best)
        before = tf.pad(kinds, [[0, 0], [1, 0]], constant_values=-1)[:, :-1]
        return tf.where(
            kinds == before,
            tf.gather(tf.constant(self._next_tags), best),
            tf.gather(tf.constant(self._tags), best),
        )


class AnsweringModule(FinetunedModule):
    """Answers to questions, as spans of contexts of any length."""

    kind = "question_answering"
    signature_names = ("answer_text", "answer_ids")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settings = self.task.settings
        longest = self._settings.max_query_length
        taken = longest + questions_lib.NUM_SPECIAL
        if self.max_length <= taken:
            raise ValueError(
                "Windows must have room for a context beside a question of "
                f"{longest} pieces, so more than {taken} tokens. Received: "
                f"{self.max_length}. Give a larger --max_length."
            )
        self._finder = spans_lib.SpanFinder(self.tokenizer)

    def answer_text(self, questions: tf.Tensor, contexts: tf.Tensor) -> Tensors:
        """Answers to questions, out of contexts."""
        questions, texts = exported_module.check_pairs(
            questions=questions, contexts=contexts
        )
        pieces = questions_lib.build_contexts(self.tokenizer, texts)
        asked = self.tokenizer.tokenize(questions)
        rows = questions_lib.lay_out(
            self.tokenizer.vocabulary,
            asked,
            pieces.ids,
            tf.range(tf.size(texts, tf.int64)),
            self.max_length,
            self._settings,
        )
        windows = rows.windows
        found, odds = self._read_windows(rows)
        best = spans_lib.choose_windows(found.scores, windows.splits)
        chosen = spans_lib.Spans(*(tf.gather(v, best) for v in found))
        begins = tf.gather(windows.starts, best)
        first, last = begins + chosen.firsts, begins + chosen.lasts
        places = self._finder.find(texts, pieces, first, last, chosen.is_found)
        odds = self._combine_odds(odds, windows.splits, chosen)
        has_pieces = windows.totals > 0
        num_windows = tf.where(has_pieces, windows.counts, 0)
        num_cut = asked.row_lengths() - self._settings.max_query_length
        odds = tf.where(has_pieces, odds, export_metadata.NO_CONTEXT_ODDS)
        return {
            "answers": places.texts,
            "answer_starts": places.starts,
            "answer_ends": places.ends,
            "answer_byte_starts": places.byte_starts,
            "answer_byte_ends": places.byte_ends,
            "answer_scores": _scores_of(chosen),
            "null_odds": odds,
            "num_windows": tf.cast(num_windows, tf.int32),
            "num_question_truncated": tf.cast(tf.maximum(num_cut, 0), tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """Answers for rows of ids, each a window by itself."""
        ids, mask, segments = self.check_ids(**inputs)
        is_document = tf.cast(mask * segments > 0, tf.int64)
        # A row without tokens has a first one too.
        shifts = tf.argmax(tf.pad(is_document, [[0, 0], [0, 1]]), axis=1)
        # Less [SEP].
        lengths = tf.reduce_sum(is_document, 1) - 1
        outputs = self.apply_head(ids, mask, segments)
        found = spans_lib.find_best(
            *spans_lib.list_candidates(outputs, shifts, lengths, self._settings)
        )
        odds = spans_lib.compute_null_odds(outputs)
        splits = tf.range(tf.size(odds, tf.int64) + 1)
        first, last = (
            tf.where(found.is_found, tf.cast(places + shifts, tf.int32), 0)
            for places in (found.firsts, found.lasts)
        )
        return {
            "start_positions": first,
            "end_positions": last,
            "answer_scores": _scores_of(found),
            "null_odds": self._combine_odds(odds, splits, found),
        }

    def _combine_odds(
        self, odds: tf.Tensor, splits: tf.Tensor, best: spans_lib.Spans
    ) -> tf.Tensor:
        """Null odds of questions, `[B]`, from those of their windows."""
        ragged = tf.RaggedTensor.from_row_splits(odds, splits, validate=False)
        least = tf.reduce_min(ragged.to_tensor(tf.float32.max), axis=1)
        if self._settings.answerable_classifier:
            return least
        # An answer that is not found has no scores to subtract.
        return least - tf.where(best.is_found, best.scores, 0.0)

    def _read_windows(
        self, rows: questions_lib.QuestionRows
    ) -> tuple[spans_lib.Spans, tf.Tensor]:
        """Best spans and null odds of all windows, in buckets."""
        padded = self.pad(rows.ids, rows.shifts)
        numbers = tf.range(tf.size(rows.shifts))

        def compute_rows(chosen: length_buckets.Rows) -> Tensors:
            outputs = self.apply_head(*map(chosen.trim, padded))
            shifts, lengths = map(
                chosen.pick, (rows.shifts, rows.windows.lengths)
            )
            candidates, is_valid = spans_lib.list_candidates(
                outputs, shifts, lengths, self._settings
            )
            is_valid &= spans_lib.have_most_context(
                candidates, rows.windows, chosen.pick(numbers)
            )[:, :, tf.newaxis]
            found = spans_lib.find_best(candidates, is_valid)
            odds = spans_lib.compute_null_odds(outputs)
            return found._asdict() | {"odds": odds}

        computed = self.compute_in_buckets(compute_rows, padded[1])
        odds = computed.pop("odds")
        return spans_lib.Spans(**computed), odds


def _scores_of(found: spans_lib.Spans) -> tf.Tensor:
    scores, none = found.scores, export_metadata.NO_ANSWER_SCORE
    return tf.where(found.is_found, scores, none)
