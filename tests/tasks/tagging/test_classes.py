"""Tags of files as the classes that a model learns."""

import pytest

from electra_tf.tasks.tagging import spans


def test_spans_are_learned_in_one_encoding():
    tags = [("B-NP", "I-NP", "O"), ("I-VP",)]
    expected = ("B-NP", "E-NP", "O", "S-VP")
    assert spans.list_classes(tags, has_spans=True) == expected


def test_other_tags_are_learned_as_they_are():
    assert spans.list_classes([("VB", "NN"), ("NN",)], False) == ("NN", "VB")


def test_labels_of_spans_stand_for_all_places():
    assert spans.classes_of_labels(("I-X", "B-X"), has_spans=True) == (
        "B-X", "E-X", "I-X", "O", "S-X",
    )  # fmt: skip
    assert spans.classes_of_labels(("N", "A"), has_spans=False) == ("N", "A")


@pytest.mark.parametrize("tags", [{"O", "B-X"}, {"I-X"}, {"S-X", "E-X", "O"}])
def test_tags_of_spans_are_told_by_their_look(tags):
    assert spans.mark_spans(tags)


@pytest.mark.parametrize("tags", [{"O"}, {"O", "B-X", "NN"}, {"c", "i"}, ()])
def test_so_are_other_tags(tags):
    assert not spans.mark_spans(tags)


def test_the_encoding_of_a_file_is_found():
    assert spans.find_encoding(["O", "B-X", "I-X"]) == "BIO"
    assert spans.find_encoding(["O", "S-X"]) == "BIOES"
