import pytest

from electra_tf.export.clients import loaded_export
from electra_tf.export.clients import scoring


@pytest.fixture(scope="module")
def export(objective_exports):
    return loaded_export.LoadedExport(objective_exports("electric").folder)


def test_words_add_up_to_the_sentence(export):
    (scored,) = scoring.score_likelihood(export, ["Unaffable cats sat."])
    words = [scored.data[word.start : word.end] for word in scored.words]
    assert words == [b"Unaffable", b"cats", b"sat", b"."]
    total = sum(word.log_likelihood for word in scored.words)
    assert scored.pseudo_log_likelihood == pytest.approx(total, rel=1e-5)
    assert scored.pseudo_log_likelihood != 0
    ranked = scored.least_likely(9)
    assert ranked[0] == min(scored.words, key=lambda w: w.log_likelihood)
    assert sorted(ranked) == sorted(scored.words)
    assert scored.least_likely() == ranked[:1]


def test_text_without_words_and_a_long_one(export):
    empty, long = scoring.score_likelihood(export, ["", "the cat " * 20])
    assert (empty.words, empty.pseudo_log_likelihood) == ((), 0.0)
    assert len(long.words) == 22
    assert long.num_truncated == 18


def test_detector_has_no_likelihoods(exported):
    export = loaded_export.LoadedExport(exported)
    with pytest.raises(ValueError, match="'likelihood_text'.*'electra'"):
        scoring.score_likelihood(export, ["the cat"])
