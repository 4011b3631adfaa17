"""Question answering: windows, heads, decoding and scores.

A folder holds records, the features that the original made of them, heads with
fed hidden states, and post-processing with fed head outputs; sizes and
settings are in its files.
"""

import math
import re

import numpy as np
import tensorflow as tf

from electra_tf.config.finetuning import QuestionAnsweringConfig
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import scores as qa_scores
from electra_tf.tasks.question_answering import spans
from electra_tf.tasks.question_answering.answering_task import (
    QuestionAnsweringTask,
)
from electra_tf.text.vocabulary import TokenizerSettings
from tests.golden import loading
from tests.golden.checks.finetuning import classification
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
_SCORE_TOLERANCE = 1e-9
# Log probabilities below this are of positions that are no candidates; -1000
# leaves so little of their order in float32 that it is not compared.
_NO_CANDIDATE = -500.0
# The original's names of the SQuAD tasks; all others are of MRQA.
_FORMS = {"squad": records.SQUAD2, "squadv1": records.SQUAD1}
_RECORDS = {
    records.SQUAD1: "squad_v1_style.json",
    records.SQUAD2: "squad_v2_style.json",
    records.MRQA: "mrqa_style.jsonl",
}
_OPTIONS = (
    *("max_query_length", "doc_stride"),
    *("joint_prediction", "beam_size", "n_best_size", "max_answer_length"),
    *("answerable_classifier", "answerable_uses_start_logits"),
    "answerable_weight",
)


def list_cases(folder):
    """The names of the files tell; of a pair one is enough for a case."""
    names = sorted(path.stem for path in folder.glob("*.*"))
    split = "features_(?:train_|eval_)?"
    for task in _find_tags(names, split):
        yield f"features_train_{task}", _check_features, folder, task, "train"
        yield f"features_eval_{task}", _check_features, folder, task, "eval"
    for tag in _find_tags(names, "head_"):
        yield f"head_{tag}", _check_head, folder, tag
    for tag in _find_tags(names, "postprocess_(?!scores$)"):
        yield f"postprocess_{tag}", _check_postprocessing, folder, tag
    for name, check in _CHECKS_OF_FILES.items():
        if name in names:
            yield name, check, folder / f"{name}.json"


def _find_tags(names, beginning):
    matches = (re.fullmatch(f"{beginning}(.+)", name) for name in names)
    return sorted({match[1] for match in matches if match})


def _build_task(name, settings):
    """A task of the original, with the settings of a file."""
    given = {n: settings[n] for n in _OPTIONS if n in settings}
    form = _FORMS.get(name, records.MRQA)
    return QuestionAnsweringTask(
        name, {}, QuestionAnsweringConfig(**given), form
    )


def _read_records(folder, task):
    path = folder / _RECORDS[task.form]
    return records.read_squad(path)


def _build_rows(folder, task, examples, settings, is_training):
    do_lower_case = settings.get("do_lower_case", True)
    tokenizer = loading.load_tokenizer(folder, do_lower_case=do_lower_case)
    length = settings["max_seq_length"]
    return task.build_rows(examples, tokenizer, length, is_training)


def _check_features(folder, name, split):
    """Examples and rows, exactly: what is learned or predicted from."""
    settings = loading.read_json(folder / f"features_{name}.json")
    task = _build_task(name, settings)
    examples, counts = _read_records(folder, task), {}
    is_training = split == "train"
    if is_training:
        dropped = records.find_unanswered(examples, folder)
        counts["n_records"], counts["n_failures"] = len(examples), len(dropped)
        counts["dropped_ids"] = dropped
        examples = [e for e in examples if e.id not in dropped]
        counts["n_examples"] = len(examples)
    rows = _build_rows(folder, task, examples, settings, is_training)
    arrays = classification.pad(rows, settings["max_seq_length"])
    arrays["eid"] = 1000 * rows.examples + _number_windows(rows)
    if is_training:
        counts["n_features"] = rows.num_rows
        described, expected = _describe_examples(examples, rows), "examples"
        names = {"start_position": "start_positions"}
        names |= {"end_position": "end_positions"}
        arrays |= {names.get(n, n): c for n, c in rows.columns.items()}
    else:
        counts["n_eval_features"] = rows.num_rows
        described, expected = _describe_rows(examples, rows), "eval_features"
        arrays |= _describe_tokens(rows, settings["max_seq_length"])
    line = Line(f"qa, features_{split}_{name}")
    for key, count in counts.items():
        line.add(key, count != settings[key])
    line.add(expected, _count_unequal(described, settings[expected]))
    path = folder / f"features_{split}_{name}.npz"
    for key, theirs in loading.read_arrays(path).items():
        line.compare(key, arrays[key], theirs)
    yield line


def _number_windows(rows):
    """Each row's number among those of its question."""
    firsts = np.searchsorted(rows.examples, rows.examples)
    return np.arange(rows.num_rows) - firsts


def _describe_examples(examples, rows):
    for number, example in enumerate(examples):
        context, start, end, answer = example.context, -1, -1, ""
        place = not example.is_impossible and records.find_answer(example)
        if place:
            start = _count_words(context[: place[0]])
            end = _count_words(context[: place[1]]) - 1
            answer = example.answer.text
        yield {
            "eid": number, "id": example.id, "start_word": start,
            "end_word": end, "is_impossible": example.is_impossible,
            "answer": answer, "n_words": _count_words(context),
            "n_features": np.sum(rows.examples == number),
        }  # fmt: skip


def _count_words(text):
    blanks = rows_lib.QUESTION_BLANKS
    split = rows_lib.split_words(rows_lib.encode([text]), blanks)
    return int(split.words.values.shape[0])


def _describe_rows(examples, rows):
    numbers = _number_windows(rows)
    for row, example in enumerate(rows.examples):
        yield {
            "id": examples[example].id,
            "doc_span_index": numbers[row],
            "n_tokens": rows.lengths[row],
            "first_token": rows.segment_starts[row],
        }


def _describe_tokens(rows, length):
    """Word and context of every token, -1 outside the document."""
    words = np.full((rows.num_rows, length), -1)
    is_max_context = words.copy()
    row = 0
    for chunk in rows.details:
        windows = chunk.rows.windows
        splits = chunk.contexts.starts.row_splits.numpy()
        begins = chunk.contexts.ids.row_starts().numpy()
        owners = chunk.contexts.pieces.value_rowids().numpy()
        for number, text in enumerate(windows.texts):
            context = chunk.context_of_example[text]
            count = int(windows.lengths[number])
            begin = begins[context] + int(windows.starts[number])
            places = rows.segment_starts[row] + np.arange(count)
            words[row, places] = owners[begin : begin + count] - splits[context]
            tokens = tf.range(count, dtype=tf.int64)[tf.newaxis]
            candidates = spans.Candidates(tokens, *[tf.zeros(0)] * 3)
            most = spans.have_most_context(candidates, windows, [number])
            is_max_context[row, places] = most[0]
            row += 1
    return {"word_of_token": words, "is_max_context": is_max_context}


def _count_unequal(ours, theirs):
    """Records that differ in a field that the reference has."""
    ours = list(ours)
    same = sum(
        all(own.get(key) == value for key, value in one.items())
        for own, one in zip(ours, theirs, strict=False)
    )
    return max(len(ours), len(theirs)) - same


def _check_head(folder, tag):
    """Losses, logits and the best starts and ends of a head."""
    heads = loading.read_json(folder / "heads.json")
    options = {entry["tag"]: entry for entry in heads}[tag]
    arrays = loading.read_arrays(folder / f"head_{tag}.npz")
    task = _build_task("", options)
    head = loading.build_head(task.new_head, arrays)
    outputs = _compute_outputs(head, options["is_training"], arrays)
    line = Line(f"qa, head_{tag}", _TOLERANCE)
    for name, output in outputs.items():
        theirs = arrays[f"out/{name}"]
        if name.endswith("_index"):
            log_probs = arrays[f"out/{name.replace('index', 'log_probs')}"]
            is_different = (output != theirs) & (log_probs > _NO_CANDIDATE)
            line.add(name, np.sum(is_different))
        else:
            line.compare(name, output, theirs)
    yield line


def _compute_outputs(head, is_training, arrays):
    """The reference's arrays of a mode, by its names.

    In joint mode the original's prediction has zeros for end logits, and still
    a loss: the end then costs the logarithm of the row's length. Our head has
    no use for that number; it is made here.
    """
    names = ("input_mask", "segment_ids", "is_impossible")
    given = {name: arrays[name] for name in names}
    given["start_position"] = arrays["start_positions_in"]
    given["end_position"] = arrays["end_positions_in"]
    features = {name: tf.constant(array) for name, array in given.items()}
    hidden = tf.constant(arrays["final_hidden"])
    starts = features["start_position"]
    outputs = head.predict(hidden, features)
    if is_training or not head.joint_prediction:
        # Ends of all starts are made in prediction alone.
        kept = {k: v for k, v in outputs.items() if not k.startswith("end_top")}
        return kept | {
            "end_logits": head.compute_end_logits(hidden, features, starts),
            "loss": head.compute_losses(hidden, features, None),
        }
    start_logits = outputs["start_logits"]
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    loss = cross_entropy(starts, start_logits) + math.log(start_logits.shape[1])
    outputs["loss"] = loss / 2
    if head.answerable_classifier:
        targets = tf.cast(features["is_impossible"], tf.float32)
        loss = tf.nn.sigmoid_cross_entropy_with_logits(
            targets, outputs["answerable_logit"]
        )
        outputs["loss"] += head.answerable_weight * loss
    return outputs


def _check_postprocessing(folder, tag):
    """Answers, n-best lists and null odds from fed outputs."""
    settings = loading.read_json(folder / f"postprocess_{tag}.json")
    outputs = loading.read_arrays(folder / f"postprocess_{tag}.npz")
    task = _build_task(settings["task"], settings)
    examples = _read_records(folder, task)
    rows = _build_rows(folder, task, examples, settings, False)
    texts = Line(f"qa, postprocess_{tag}, texts")
    numbers = Line(f"qa, postprocess_{tag}, numbers", _TOLERANCE)
    eid = 1000 * rows.examples + _number_windows(rows)
    texts.compare("eid", eid, outputs.pop("eid"))
    if not settings["answerable_classifier"]:
        outputs.pop("answerable_logit", None)
    outputs = {name: list(array) for name, array in outputs.items()}
    decoded = task.decode(examples, rows, outputs)
    different = decoded.texts.items() ^ settings["predictions"].items()
    texts.add("predictions", len(different))
    numbers.compare_all(decoded.null_odds, settings["null_odds"] or {}, "odds ")
    for identity, entries in settings["nbest"].items():
        own = decoded.nbest.get(identity, [])
        is_same = [e["text"] for e in own] == [e["text"] for e in entries]
        texts.add(f"nbest of {identity}", not is_same)
        for name in ("probability", "start_logit", "end_logit"):
            both = ([entry[name] for entry in e] for e in (own, entries))
            numbers.compare(f"{name} of {identity}", *both)
    yield from (texts, numbers)


def _check_postprocessing_scores(path):
    """Official scores of the reference's own predictions."""
    line = Line("qa, postprocess_scores", _SCORE_TOLERANCE)
    for tag, expected in loading.read_json(path).items():
        run = loading.read_json(path.with_name(f"postprocess_{tag}.json"))
        task = _build_task(run["task"], run)
        predictions = answers.Predictions(
            run["predictions"], {}, run["null_odds"]
        )
        ours = task.score(_read_records(path.parent, task), predictions)
        line.compare_all(ours, expected, f"{tag} ")
    yield line


def _check_final_text(path):
    line = Line("qa, final_text")
    for case in loading.read_json(path):
        original, predicted = case["orig_text"], case["pred_text"]
        settings = TokenizerSettings(case["do_lower_case"])
        (plain,) = answers.normalize([original], settings)
        place = answers.project(predicted, plain, original)
        ours = original[slice(*place or (None,))]
        name = f"{predicted!r} in {original!r}, {settings.do_lower_case}"
        line.add(name, ours != case["result"])
    yield line


def _check_evaluation(path):
    """Raw scores, and the official ones of the three scripts."""
    line = Line("qa, evaluation", _SCORE_TOLERANCE)
    expected = loading.read_json(path)
    gold_path = path.with_name("evaluation_gold.json")
    examples = records.read_squad(gold_path)
    golds = {example.id: example.golds or () for example in examples}
    texts, odds = expected["predictions"], expected["null_odds"]
    raw = qa_scores.compute_raw_scores(golds, texts)
    missing = expected["missing_in_v1"]
    answered = {key: gold for key, gold in golds.items() if gold}
    given = {key: text for key, text in texts.items() if key not in missing}
    squad1 = qa_scores.compute_squad1_scores
    squad2 = qa_scores.compute_squad2_scores
    for name, ours, theirs in (
        ("raw_exact", raw["exact"], expected["raw_exact"]),
        ("raw_f1", raw["f1"], expected["raw_f1"]),
        ("v1", squad1(answered, given), expected["results_v1"]),
        ("skip", squad1(answered, given, True), expected["results_mrqa_skip"]),
        ("all", squad1(answered, given), expected["results_mrqa_noskip"]),
    ):
        line.compare_all(ours, theirs, f"{name} ")
    for threshold, theirs in expected["results_v2"].items():
        ours = squad2(golds, texts, odds, float(threshold))
        line.compare_all(ours, theirs, f"v2 {threshold} ")
    yield line


def _check_normalized_answers(path):
    line = Line("qa, normalized_answers")
    for case in loading.read_json(path):
        ours = qa_scores.normalize_answer(case["text"])
        line.add(repr(case["text"]), ours != case["normalized"])
    yield line


_CHECKS_OF_FILES = {
    "postprocess_scores": _check_postprocessing_scores,
    "final_text": _check_final_text,
    "evaluation": _check_evaluation,
    "normalized_answers": _check_normalized_answers,
}
