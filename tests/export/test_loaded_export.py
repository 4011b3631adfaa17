import pytest
import tensorflow as tf

from electra_tf.export.clients import loaded_export


def test_export_says_what_it_offers_and_where_it_comes_from(exported):
    export = loaded_export.LoadedExport(exported)
    assert export.objective == "electra"
    assert export.signature_names == [
        "features_ids",
        "features_text",
        "score_ids",
        "score_text",
    ]


def test_folder_without_saved_model_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        loaded_export.LoadedExport(tmp_path)


def test_what_is_not_offered_is_refused_with_what_is(objective_exports):
    export = loaded_export.LoadedExport(objective_exports("mlm").folder)
    with pytest.raises(
        ValueError, match="'score_text'.*objective 'mlm'.*predict_ids"
    ):
        list(export.answer_texts("score_text", ["the cat"]))


def test_saved_model_of_another_kind_offers_nothing(tmp_path):
    module = tf.Module()
    module.double = tf.function(
        lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([])]
    )
    tf.saved_model.save(module, tmp_path, signatures=module.double)
    export = loaded_export.LoadedExport(tmp_path)
    assert export.objective == "unknown"
    with pytest.raises(ValueError, match="nothing by name"):
        export.require("score_text")


def test_texts_of_like_length_go_together_and_come_back_in_order(exported):
    export = loaded_export.LoadedExport(exported)
    texts = ["the cat sat on the mat", "dog"] * 40
    answered = list(export.answer_texts("score_text", texts))
    assert [data.decode() for data, _ in answered] == texts
    counts = [int(row["num_tokens"]) for _, row in answered]
    assert counts == [8, 3] * 40
    # The first 32 of the short ones were padded to no more than themselves.
    widths = [row["input_ids"].size for _, row in answered[1:64:2]]
    assert widths == [3] * 32
