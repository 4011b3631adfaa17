import functools
import sys

import pytest
import tensorflow as tf

from electra_tf.analysis import inference_benchmark
from electra_tf.export import export_metadata
from tests.analysis import word_peer

TEXTS = ["a b c", "d", "e f", "g h i j", "k"]
MAX_LENGTH = 4


def _peer_command(value):
    return [sys.executable, "-m", "tests.analysis.word_peer", str(value)]


@pytest.mark.parametrize(
    ("amount", "batch_size", "expected"),
    [((10, 100, 2), 2, [2, 3]), ((10, 3, 2), 1, [1, 2]), ((1, 9, 5), 64, [1])],
)
def test_batches_are_dealt_out_to_rounds(amount, batch_size, expected):
    rounds = inference_benchmark.Amount(*amount).split(batch_size)
    assert rounds == expected


def test_both_sides_take_the_same_texts_in_turn():
    seen = []

    def ask(value, **request):
        seen.append((value, request["texts"]))
        return word_peer.WordPeer(value).ask(**request)

    sides = [functools.partial(ask, 1.0), functools.partial(ask, 2.0)]
    amount = inference_benchmark.Amount(8, 10, 2)
    rounds = inference_benchmark.time_sides(sides, TEXTS, 2, amount)
    assert [value for value, _ in seen] == [1.0, 2.0] * 3
    for (_, first), (_, second) in zip(seen[::2], seen[1::2], strict=True):
        assert first == second
    # The first block, of six texts, only warms up.
    assert seen[2][1] == ["d", "e f", "g h i j", "k"]
    for replies in rounds:
        assert [len(reply["seconds"]) for reply in replies] == [2, 2]


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
    export, peer, ratios = inference_benchmark.describe([ours, theirs])
    assert export.split()[:2] == ["export", "200.0"]
    assert "290.0 ms p95" in export
    assert "600.0 ms of processors" in export
    assert "10.0 texts/s" in export
    assert "100 tokens/s" in export
    assert peer.split()[:2] == ["transformers", "600.0"]
    assert "3.00 times faster by median, 3.00 in all, 3.00 by" in ratios
    assert ratios.endswith("rounds 2.00 to 4.00")


def test_differences_of_answers_are_found():
    command = [*_peer_command(0.25), str(MAX_LENGTH)]
    with inference_benchmark.PeerProcess(command) as peer:
        difference = inference_benchmark.largest_difference(
            [word_peer.WordPeer().ask, peer.ask], TEXTS
        )
    assert peer.versions == {"stub": "1"}
    assert difference == pytest.approx(0.25)


def test_other_tokens_are_an_error():
    with pytest.raises(ValueError, match=r"Received: 4 and 3 for 'a b c'"):
        inference_benchmark.largest_difference(
            [word_peer.WordPeer(extra=1).ask, word_peer.WordPeer().ask], TEXTS
        )


def test_peer_that_does_not_start_says_why():
    command = [sys.executable, "-c", "raise SystemExit('no torch here')"]
    with pytest.raises(RuntimeError, match=r"(?s)no torch here.*--peer_python"):
        inference_benchmark.PeerProcess(command)


def save_model(folder, name):
    """A SavedModel that gives every word a half, under a signature's name."""
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "texts")])
    def score(texts):
        words = tf.strings.split(texts)
        mask = tf.sequence_mask(words.row_lengths(), dtype=tf.int32)
        return {
            "replaced_probability": tf.cast(mask, tf.float32) * 0.5,
            "input_mask": mask,
        }

    module.score = score
    tf.saved_model.save(module, str(folder), signatures={name: score})
    (folder / "assets.extra").mkdir()
    export_metadata.ExportMetadata(
        *("detector", (name,), "run/step-1", 1, MAX_LENGTH),
        *("float32", "float32", "cpu", MAX_LENGTH, MAX_LENGTH, "0", "2.20"),
        objective="electra",
    ).write(folder)


def test_report_compares_an_export_with_a_peer(tmp_path):
    save_model(tmp_path / "export", "score_text")
    (tmp_path / "texts").write_text("\n\n".join(TEXTS) + "\n")
    arguments = tmp_path / "export", tmp_path / "texts"
    amount = inference_benchmark.Amount(4, 4, 2)
    lines = list(
        inference_benchmark.report(
            *arguments, [1, 2], amount, _peer_command(0.5)
        )
    )
    assert lines[:2] == [
        "stub 1",
        "largest difference of the probabilities 0.0e+00",
    ]
    assert [line for line in lines if line.startswith("batches")] == [
        "batches of 1",
        "batches of 2",
    ]
    alone = list(inference_benchmark.report(*arguments, [2], amount))
    assert len(alone) == 2


def test_export_that_does_not_score_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        inference_benchmark.ScoringExport(tmp_path)
    save_model(tmp_path / "export", "tag_text")
    with pytest.raises(
        ValueError, match="must have the signature 'score_text'"
    ):
        inference_benchmark.ScoringExport(tmp_path / "export")
