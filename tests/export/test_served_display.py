from electra_tf.export.clients import served_display

ANSWERS = {
    "word_starts": [[-1, 0, 4, -1, -1], [-1, 0, 0, 5, -1]],
    "word_ends": [[-1, 3, 9, -1, -1], [-1, 4, 4, 6, -1]],
    "input_mask": [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
    "input_ids": [[2, 5, 6, 3, 0], [2, 7, 8, 9, 3]],
    "replaced_probability": [[0.1, 0.25, 0.5, 0.1, 0.0], [0.0] * 5],
    "num_tokens": [4, 5],
    "token_features": [[[1.0] * 20] * 5, [[2.0] * 20] * 5],
}


def test_numbers_of_tokens_stand_beside_their_words():
    texts = [b"the \xc3\xa9\xc3\xa9\xff\n", "caf\udcff ."]
    lines = list(served_display.describe({"texts": texts}, ANSWERS))
    assert lines[0].startswith("the éé")
    assert lines[2] == "  replaced_probability: - 0.1  the 0.25  éé� 0.5  - 0.1"
    assert lines[1] == "  num_tokens: 4"
    assert lines[3].endswith("... (8 more)]]")
    assert lines[4] == "caf� ."
    assert "caf� 0  caf� 0  . 0" in lines[6]


def test_other_answers_are_listed_by_name():
    lines = list(
        served_display.describe(
            {"texts": ["a"], "text_pairs": ["b"]},
            {"label": [b"caf\xc3\xa9"], "probabilities": [[0.75, 0.25]]},
        )
    )
    assert lines == ["a | b", "  label: café", "  probabilities: [0.75 0.25]"]


def test_rows_of_ids_are_shown_as_they_are():
    lines = served_display.describe(
        {"input_ids": [[2, 3]]}, {"score": [[0.123456, 1e-7]]}
    )
    assert list(lines) == ["[2 3]", "  score: [0.1235 1e-07]"]
