"""The Python API: what a model in memory answers, and how it is loaded."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf import electra as electra_lib
from electra_tf.export import saved_model
from electra_tf.export import self_check
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models
from electra_tf.modeling import keras_models
from electra_tf.text import vocabulary as vocabulary_lib
from tests import tiny_electra

TEXTS = [
    "The cats sat on the mat.",
    "unable",
    "",
    "a good film , the dog was bad ! " * 3,
    "\U0001f600 café \u05e9\u05dc\u05d5\u05dd",
]


@pytest.fixture(scope="module")
def electra():
    return tiny_electra.build()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder and model of a run."""
    folder = tmp_path_factory.mktemp("run")
    return folder, tiny_electra.write_run(folder)


def test_a_run_is_loaded_with_both_towers(run):
    folder, model = run
    electra = electra_tf.load(folder)
    features = electra.tokenize(TEXTS)
    rows = [features[name] for name in keras_models.FEATURES]
    np.testing.assert_array_equal(
        electra.discriminator(features), model.main(*rows).logits
    )
    np.testing.assert_array_equal(
        electra.encoder(features),
        model.main.encoder(*rows).sequence_output,
    )
    encoder = model.generator.encoder
    np.testing.assert_array_equal(
        electra.generator(features),
        model.generator.head(
            encoder(*rows).sequence_output, encoder.embeddings.word_embeddings
        ),
    )
    assert electra.vocabulary == tiny_electra.VOCABULARY
    assert electra.config.vocab_size == tiny_electra.VOCABULARY.size
    assert electra.objective == "electra"
    assert "step-00000007" in electra.origin
    assert electra_tf.load(str(folder), format="electra_tf").notes == ()


def test_an_object_says_what_it_is(electra):
    assert repr(electra) == (
        "Electra(discriminator of 2 layers, 16 wide, 24 tokens, 16 positions, "
        f"{electra.encoder.count_params():,} encoder weights, generator of 2 "
        "layers, 8 wide; random weights)"
    )


def test_scores_are_the_discriminators_by_word(electra):
    features = electra.tokenize(TEXTS)
    logits = electra.discriminator(features)
    probabilities = tf.sigmoid(logits).numpy()
    scored = electra.score(TEXTS)
    assert [s.data.decode() for s in scored] == TEXTS
    words = [(w.text, w.start, w.end) for w in scored[0].words]
    assert words == [
        ("The", 0, 3), ("cats", 4, 8), ("sat", 9, 12), ("on", 13, 15),
        ("the", 16, 19), ("mat", 20, 23), (".", 23, 24),
    ]  # fmt: skip
    got = [w.replaced_probability for w in scored[0].words]
    first = probabilities[0]
    expected = [first[1], max(first[2], first[3]), *first[4:9]]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert scored[2].words == ()
    assert scored[3].num_truncated == 3 * 9 - 14
    assert len(scored[3].words) == 14


def test_an_export_gives_the_same_scores(run, tmp_path, monkeypatch):
    folder, _ = run
    monkeypatch.setattr(self_check, "check", lambda *_: 0.0)
    exported = saved_model.export(folder, tmp_path / "export").folder
    theirs = scoring.score(text_models.LoadedExport(exported), TEXTS)
    for ours, other in zip(
        electra_tf.load(folder).score(TEXTS), theirs, strict=True
    ):
        assert ours.data == other.data
        for word, same in zip(ours.words, other.words, strict=True):
            assert word[:3] == same[:3]
            assert word[3] == pytest.approx(same[3], abs=1e-6)


def test_features_are_the_encoders(electra):
    rows = electra.tokenize(TEXTS)
    states = electra.encoder(rows).numpy()
    sentences = electra.features(TEXTS)
    assert sentences.dtype == np.float32 and sentences.shape == (5, 16)
    np.testing.assert_allclose(sentences, states[:, 0], atol=1e-5)
    tokens = electra.features(TEXTS, level="token")
    counts = rows["input_mask"].numpy().sum(1)
    for state, count, token in zip(states, counts, tokens, strict=True):
        assert token.dtype == np.float32
        assert token.shape == (count, 16)
        np.testing.assert_allclose(token, state[:count], atol=1e-5)


def test_no_texts_give_no_answers(electra):
    assert electra.score([]) == []
    assert electra.fill_masks([]) == []
    assert electra.features([]).shape == (0, 16)
    assert electra.features([], "token") == []
    assert electra.tokenize([])["input_ids"].shape[0] == 0


def test_what_is_no_list_of_texts_is_refused(electra):
    for call in (electra.score, electra.features, electra.fill_masks,
                 electra.tokenize):  # fmt: skip
        with pytest.raises(ValueError, match="must be a list of str"):
            call("a single text")
        with pytest.raises(ValueError, match="must be a list of str"):
            call([b"bytes"])


def test_rows_have_segments_and_padding(electra):
    features = electra.tokenize(["The cat sat", "a"], ["a dog", ""])
    vocabulary = electra.vocabulary
    tokens = [
        " ".join(vocabulary.tokens[i] for i in row)
        for row in features["input_ids"].numpy()
    ]
    assert tokens == [
        "[CLS] the cat sat [SEP] a dog [SEP]",
        "[CLS] a [SEP] [PAD] [PAD] [PAD] [PAD] [PAD]",
    ]
    assert features["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 1], [0] * 8,
    ]  # fmt: skip
    assert features["input_mask"].numpy().tolist() == [
        [1] * 8, [1] * 3 + [0] * 5,
    ]  # fmt: skip
    assert all(rows.dtype == tf.int32 for rows in features.values())


def test_rows_are_cut_at_the_length_asked_for(electra):
    assert electra.tokenize(["cat " * 30])["input_ids"].shape == (1, 16)
    cut = electra.tokenize(["cat " * 30], max_length=5)
    assert cut["input_ids"].shape == (1, 5)
    assert cut["input_ids"][0, -1] == electra.vocabulary.sep_id
    pair = electra.tokenize(["cat " * 9], ["dog"], max_length=6)
    assert pair["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1]]
    for length in (2, 17):
        with pytest.raises(ValueError, match="`max_length` must be 3 to 16"):
            electra.tokenize(["cat"], max_length=length)
    with pytest.raises(ValueError, match="`max_length` must be 5 to 16"):
        electra.tokenize(["cat"], ["dog"], max_length=4)
    with pytest.raises(ValueError, match="2 for 1"):
        electra.tokenize(["cat"], ["dog", "dog"])


def test_a_users_training_changes_the_answers():
    electra = tiny_electra.build()
    texts = ["a good film .", "a bad film ."] * 4
    inputs = {
        name: keras.Input([None], dtype="int32", name=name)
        for name in keras_models.FEATURES
    }
    states = electra.encoder(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(states[:, 0]))
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    before = electra.score(texts)[0].words
    labels = np.array([1.0, 0.0] * 4)[:, np.newaxis]
    losses = model.fit(
        electra.tokenize(texts), labels, epochs=25, verbose=0
    ).history["loss"]
    assert min(losses[-3:]) < 0.7 * losses[0]
    assert electra.score(texts)[0].words != before


def test_a_masked_language_model_fills_and_does_not_score(tmp_path):
    model = tiny_electra.write_run(tmp_path, "mlm")
    electra = electra_tf.load(tmp_path)
    assert electra.discriminator is None
    assert electra.generator.layer.encoder is electra.encoder.layer
    features = electra.tokenize(["the cat"])
    np.testing.assert_array_equal(
        electra.encoder(features),
        model.main.encoder(
            *(features[name] for name in keras_models.FEATURES)
        ).sequence_output,
    )
    assert len(electra.fill_masks(["the [MASK]"], 3)[0][0]) == 3
    assert electra.features(["the cat"]).shape == (1, 16)
    with pytest.raises(ValueError, match="`score` needs a discriminator.*mask"):
        electra.score(["the cat"])
    assert repr(electra).startswith("Electra(masked language model of 2 layers")


@pytest.mark.parametrize("objective", ["replace_mlm", "all_tokens_mlm"])
def test_of_other_towers_the_encoder_is_taken(objective, tmp_path):
    model = tiny_electra.write_run(tmp_path, objective)
    electra = electra_tf.load(tmp_path)
    features = electra.tokenize(["the cat"])
    np.testing.assert_array_equal(
        electra.encoder(features),
        model.main.encoder(
            *(features[name] for name in keras_models.FEATURES)
        ).sequence_output,
    )
    assert electra.discriminator is None and electra.generator is None
    assert "the encoder alone was loaded" in electra.notes[-1]
    assert repr(electra).startswith("Electra(encoder of 2 layers")
    with pytest.raises(ValueError, match="`fill_masks` needs a generator"):
        electra.fill_masks(["the [MASK]"])


def test_energies_are_no_probabilities(tmp_path):
    tiny_electra.write_run(tmp_path, "electric")
    electra = electra_tf.load(tmp_path)
    with pytest.raises(ValueError, match="energy model"):
        electra.score(["the cat"])
    # Its generator reads from both sides, and fills masks without seeing them.
    assert len(electra.fill_masks(["the [MASK] sat"])[0][0]) == 5


def test_a_generator_is_taken_from_a_second_model(run, tmp_path):
    folder, _ = run
    model = tiny_electra.write_run(tmp_path / "generator", "mlm")
    electra = electra_tf.load(folder, generator_path=tmp_path / "generator")
    features = electra.tokenize(["the cat"])
    rows = [features[name] for name in keras_models.FEATURES]
    encoder = model.main.encoder
    np.testing.assert_array_equal(
        electra.generator(features),
        model.main.head(
            encoder(*rows).sequence_output, encoder.embeddings.word_embeddings
        ),
    )
    assert electra.score(["the cat"])


def test_two_models_that_do_not_belong_together_are_refused(run, tmp_path):
    folder, _ = run
    other = vocabulary_lib.Vocabulary(
        (*tiny_electra.VOCABULARY.tokens[:-1], "other")
    )
    tiny_electra.write_run(tmp_path / "other", "mlm", other)
    with pytest.raises(ValueError, match="must have the vocabulary"):
        electra_tf.load(folder, generator_path=tmp_path / "other")
    tiny_electra.write_run(tmp_path / "none", "replace_mlm")
    with pytest.raises(ValueError, match="must hold a masked language model"):
        electra_tf.load(folder, generator_path=tmp_path / "none")


def test_lower_precision_gives_nearly_the_same(run):
    folder, _ = run
    exact = electra_tf.load(folder)
    rough = electra_tf.load(folder, precision="bfloat16")
    assert rough.encoder(rough.tokenize(["a"])).dtype == tf.bfloat16
    first, second = exact.features(TEXTS), rough.features(TEXTS)
    assert second.dtype == np.float32
    assert 0 < np.abs(first - second).max() < 0.2


def test_another_precision_is_refused(run, tmp_path):
    settings = tiny_electra.build_settings()
    words = "float32, bfloat16, float16.*int8"
    for call in (
        lambda: electra_tf.load(run[0], precision="int8"),
        lambda: electra_tf.load(tmp_path / "absent", precision="int8"),
        lambda: electra_lib.Electra.untrained(
            settings.encoder, tiny_electra.VOCABULARY, precision="int8"
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_nothing_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        electra_tf.load(tmp_path / "absent")
    with pytest.raises(ValueError):
        electra_tf.load(tmp_path)
    with pytest.raises(ValueError, match="`format` must be one of"):
        electra_tf.load(tmp_path, format="pickle")
