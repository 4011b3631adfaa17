"""Both sides are asked the same, and timed by what they say."""

import functools
import sys

import pytest
import tensorflow as tf

from electra_tf.analysis import benchmarks
from electra_tf.config import schema
from electra_tf.export import export_metadata
from tests.analysis import word_peer

TEXTS = ["a b c", "d", "e f", "g h i j", "k"]
MAX_LENGTH = 4
PEER = [sys.executable, "-m", "tests.analysis.word_peer", "0.25"]


@pytest.mark.parametrize(
    ("amount", "batch_size", "expected"),
    [((10, 100, 2), 2, [2, 3]), ((10, 3, 2), 1, [1, 2]), ((1, 9, 5), 64, [1])],
)
def test_batches_are_dealt_out_to_rounds(amount, batch_size, expected):
    assert benchmarks.Amount(*amount).split(batch_size) == expected


def test_both_sides_take_the_same_texts_in_turn():
    seen = []

    def ask(value, **request):
        seen.append((value, request["texts"]))
        return word_peer.ask(value, **request)

    sides = [functools.partial(ask, 1.0), functools.partial(ask, 2.0)]
    amount = benchmarks.Amount(8, 10, 2)
    rounds = benchmarks.time_sides(sides, TEXTS, 2, amount)
    assert [value for value, _ in seen] == [1.0, 2.0] * 3
    assert [texts for _, texts in seen[::2]] == [t for _, t in seen[1::2]]
    # The first block, of six texts, only warms up.
    assert seen[2][1] == ["d", "e f", "g h i j", "k"]
    for replies in rounds:
        assert [len(reply["seconds"]) for reply in replies] == [2, 2]
        assert [reply["num_tokens"] for reply in replies] == [8, 10]


def _reply(*seconds):
    return {
        "seconds": seconds,
        "processor_seconds": 3 * sum(seconds),
        "num_texts": 2 * len(seconds),
        "num_tokens": 20 * len(seconds),
    }


def test_timing_says_percentiles_rates_and_ratios():
    ours = [_reply(0.1, 0.2), _reply(0.3)]
    theirs = [_reply(0.3, 0.9), _reply(0.6)]
    export, peer, ratios = benchmarks.describe([ours, theirs])
    assert export.split()[:2] == ["export", "200.0"]
    assert "290.0 ms p95" in export
    assert "600.0 ms of processors" in export
    assert "10.0 texts/s" in export
    assert "100 tokens/s" in export
    assert peer.split()[:2] == ["transformers", "600.0"]
    assert "3.00 times faster by median, 3.00 in all, 3.00 by" in ratios
    assert ratios.endswith("rounds 2.00 to 4.00")


def test_other_tokens_are_an_error():
    sides = [word_peer.ask, functools.partial(word_peer.ask, max_length=2)]
    with pytest.raises(ValueError, match=r"Received: 3 and 2 for 'a b c'"):
        benchmarks.largest_difference(sides, TEXTS)


def test_peer_that_does_not_start_says_why(tmp_path, capfd):
    command = benchmarks.peer_command(tmp_path, sys.executable, "eager", 3)
    assert command[-3:] == [str(tmp_path), "eager", "3"]
    command[2:] = ["-c", "raise SystemExit('no torch here')"]
    with (
        pytest.raises(RuntimeError, match="ended with 1.*--peer_python"),
        benchmarks.run_peer(command),
    ):
        pass
    assert "no torch here" in capfd.readouterr().err


def save_model(folder, name):
    """A SavedModel that gives every word a half, under a signature's name."""
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "texts")])
    def score(texts):
        words = tf.strings.split(texts)
        mask = tf.sequence_mask(words.row_lengths(), dtype=tf.int32)
        scores = tf.cast(mask, tf.float32) * 0.5
        return {"replaced_probability": scores, "input_mask": mask}

    module.score = score
    tf.saved_model.save(module, str(folder), signatures={name: score})
    metadata = export_metadata.ExportMetadata(
        kind="detector",
        signatures=(name,),
        checkpoint="step-00000001",
        step=1,
        trained_length=MAX_LENGTH,
        precision="float32",
        stored_weights="float32",
        device="cpu",
        max_length=MAX_LENGTH,
        num_positions=MAX_LENGTH,
        electra_tf="0",
        tensorflow="0",
    )
    (folder / "assets.extra").mkdir()
    path = folder / "assets.extra" / "export.json"
    path.write_text(schema.to_json(metadata))
    return folder


def test_an_export_is_compared_with_a_peer(tmp_path):
    folder = save_model(tmp_path / "export", "score_text")
    (tmp_path / "texts").write_text("\n\n".join(TEXTS) + "\n")
    arguments = folder, tmp_path / "texts"
    amount = benchmarks.Amount(4, 4, 2)
    lines = list(benchmarks.time_export(*arguments, [1, 2], amount, PEER))
    assert lines[:2] == [
        "stub 1",
        "largest difference of the probabilities 2.5e-01",
    ]
    assert [line for line in lines if line.startswith("batches")] == [
        "batches of 1",
        "batches of 2",
    ]
    alone = list(benchmarks.time_export(*arguments, [2], amount))
    assert len(alone) == 2


def test_what_cannot_be_timed_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        benchmarks.load_export(tmp_path)
    tagger = save_model(tmp_path / "export", "tag_text")
    with pytest.raises(ValueError, match="the signature 'score_text'"):
        benchmarks.load_export(tagger)
    (tmp_path / "texts").write_text(" \n\n")
    amount = benchmarks.Amount(1, 1, 1)
    with pytest.raises(ValueError, match="without any"):
        next(benchmarks.time_export(tagger, tmp_path / "texts", [1], amount))
