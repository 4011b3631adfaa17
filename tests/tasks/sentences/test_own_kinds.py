"""Several labels, choices and rankings of a user's own, and their scores."""

import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.tasks.sentences import comparisons
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import build_own

LABELS = "text,label\na cat,new| big\na dog,\nun,big\n"
RANKED = "text,doc,label\nq  1,a,0\nq2,b,2\nq 1,c,1\nq2,d,0\nq2,e,0.5\n"
CHOICES = "text,a,b,c,label\nthe dog,cat,a,un,C\nthe cat,un,dog,,0\n"
MULTILABEL = {"kind": "multilabel", "threshold": 0.6}
CHOICE = {"kind": "multiple_choice", "choices_column": "a, b,c"}
RANKING = {"kind": "ranking", "text_pair_column": "doc", "max_value": 3.0}


def _write(task, folder, predictions):
    examples = task.read_split("train")
    (path,) = task.write_predictions(folder, "dev", examples, predictions)
    return path.read_text().splitlines()


def test_a_text_has_any_number_of_labels(tmp_path):
    task = build_own(tmp_path, LABELS, **MULTILABEL)
    assert task.labels == ("big", "new")
    examples = task.read_split("train")
    assert [e.label for e in examples] == [("new", "big"), (), ("big",)]
    # sigmoid(0.41) = 0.601, sigmoid(0.3) = 0.574, sigmoid(-1) = 0.269.
    logits = np.array([[3.0, 0.3], [-1.0, -1.0], [0.0, 0.41]])
    found = task.decode(examples, None, {"logits": logits})
    assert found.classes.tolist() == [[1, 0], [0, 0], [0, 1]]
    # One of three labels, beside a wrong one: 2 / (2 + 1 + 2). F1 of `big` is
    # 2/3, of `new` 0. The second text has what it should.
    assert task.score(examples, found) == pytest.approx(
        {"micro_f1": 40.0, "macro_f1": 100 / 3, "exact_match": 100 / 3}
    )
    assert not task.is_degenerate(examples, found)
    same = found._replace(classes=found.classes[[0, 0, 0]])
    assert task.is_degenerate(examples, same)
    assert task.list_predictions(examples, found) == [["big"], [], ["new"]]
    assert _write(task, tmp_path, found)[:2] == [
        "index\tlabel\tprobability_big\tprobability_new",
        "0\tbig\t0.952574\t0.574443",
    ]


def test_a_question_has_choices(tmp_path):
    task = build_own(tmp_path, CHOICES, **CHOICE)
    examples = task.read_split("train")
    rows = [(0, "dog", "cat", 0), (0, "dog", "a", 0), (0, "dog", "un", 1),
            (1, "cat", "un", 1), (1, "cat", "dog", 0)]  # fmt: skip
    assert examples == [Example(i, f"the {a}", b, n) for i, a, b, n in rows]
    assert task.describe_labels({"train": examples}) == [
        "train: 2 groups of 2 to 3 texts; the right choice, from 0: 0 1, 2 1."
    ]
    outputs = {"prediction": [0.0, 0.0, np.log(2.0), -1.0, 1.0]}
    found = task.decode(examples, None, outputs)
    assert task.score(examples, found) == {"accuracy": 50.0}
    assert not task.is_degenerate(examples, found)
    # Each group by itself is of one opinion.
    alike = found._replace(scores=np.array([1.0, 1.0, 1.0, -3.0, -3.0]))
    assert task.is_degenerate(examples, alike)
    assert _write(task, tmp_path, found)[:4] == [
        "index\tchoice\trank\tscore\tprobability",
        "0\t0\t2\t0\t0.25",
        "0\t1\t3\t0\t0.25",
        "0\t2\t1\t0.6931472\t0.5",
    ]
    listed = task.list_predictions(examples, found)
    assert listed[2] == {"rank": 1, "probability": 0.5}


@pytest.mark.parametrize(
    ("choices", "label"),
    [
        ({"text": ["cat", "dog"], "label": ["1", "2"]}, "2"),
        ([{"key": 1, "text": "cat"}, {"key": 2, "text": "dog"}], 2),
        ({"A": "cat", "B": "dog"}, "B"),
        ({"text": ["cat", "dog"]}, 1),
        ("['cat' 'dog']", "dog"),
        ("['cat' 'dog']", "b"),
    ],
)
def test_a_choice_goes_by_its_own_name(tmp_path, choices, label):
    row = json.dumps({"text": "a", "choices": choices, "label": label})
    task = build_own(tmp_path, row, "t.jsonl", kind="multiple_choice")
    found = [(e.pair, e.label) for e in task.read_split("train")]
    assert found == [("cat", 0), ("dog", 1)]


def test_groups_to_learn_from_have_one_size(tmp_path, tokenizer):
    choices = [{"label": "A", "text": "cat"}, {"label": "B", "text": "dog"}]
    rows = {"text": "a", "choices": choices, "label": "B"}
    more = {"text": "un", "choices": ["a", "un", "cat"], "label": 2}
    lines = "\n".join(map(json.dumps, [rows, more]))
    for most, expected in (
        (16, [[1, 0, -1], [1, 0, 0]]),
        # The right choice is never cut off.
        (2, [[1, 0], [1, 0]]),
    ):
        task = build_own(
            tmp_path, lines, "t.jsonl", kind="multiple_choice", max_choices=most
        )
        found = task.build_rows(task.read_split("train"), tokenizer, 16, True)
        assert found.group_size == len(expected[0])
        assert found.columns["relevance"].tolist() == expected
        texts = [
            "".join(tokenizer.vocabulary.tokens[i] for i in found.ids[row])
            for row in range(found.num_rows)
        ]
        assert texts[:2] == ["[CLS]a[SEP]dog[SEP]", "[CLS]a[SEP]cat[SEP]"]
        assert texts[-2] == f"[CLS]un[SEP]{'a' if most > 2 else 'cat'}[SEP]"
    # Each row is predicted by itself.
    found = task.build_rows(task.read_split("train"), tokenizer, 16, False)
    assert (found.num_rows, found.group_size) == (5, 1)


def test_rows_of_one_query_are_ranked_wherever_they_stand(tmp_path):
    task = build_own(tmp_path, RANKED, **RANKING)
    examples = task.read_split("train")
    assert [e.eid for e in examples] == ["q 1", "q2", "q 1", "q2", "q2"]
    assert task.describe_labels({"train": examples}) == [
        "train: 2 groups of 2 to 3 texts; relevance: 0 2, 0.5 1, 1 1, 2 1."
    ]
    outputs = {"prediction": [1.0, 0.5, 2.0, 3.0, 0.0]}
    found = task.decode(examples, None, outputs)
    score = task.score(examples, found)
    # The best of q2 is second; its gains are in the order 0, 2, 0.5.
    assert score["mrr"] == 75.0
    discounts = 1 / np.log2([2, 3, 4])
    ndcg = discounts @ [0, 2, 0.5] / (discounts @ [2, 0.5, 0])
    assert score["ndcg_at_10"] == pytest.approx(50 * (1 + ndcg))
    rows = [line.split("\t")[:3] for line in _write(task, tmp_path, found)]
    assert rows[1:4] == [["q 1", "0", "2"], ["q2", "0", "2"], ["q 1", "1", "1"]]


@pytest.mark.parametrize(
    ("text", "fields", "note"),
    [
        ("text,doc,label\nq,a,1\nq,b,2\n", RANKING,
         "(these look like ranks, but the highest is best)."),
        ("text,a,b,c,label\nq,x,y,z,1\nr,x,y,z,2\n", CHOICE,
         "1 1, 2 1 (never the first: if you count from 1, count from 0)."),
    ],
)  # fmt: skip
def test_what_may_be_counted_otherwise_is_told(tmp_path, text, fields, note):
    task = build_own(tmp_path, text, **fields)
    (line,) = task.describe_labels({"train": task.read_split("train")})
    assert line.endswith(note)


def test_a_query_without_differences_or_relevance():
    relevance, alike = np.array([0.0, 2.0, 1.0, 0.0]), np.zeros(4)
    # A constant must not look good, whatever the order of the file.
    assert comparisons.reciprocal_rank(relevance, alike) == 1 / 3
    assert comparisons.reciprocal_rank(0 * relevance, alike) == 0
    assert comparisons.ndcg_at_10(0 * relevance, alike) == 0
    assert comparisons.ndcg_at_10(np.array([3.0]), np.array([-7.0])) == 1
    eleven, last = np.zeros(11), np.arange(11.0)
    eleven[0] = 1.0
    assert comparisons.ndcg_at_10(eleven, last) == 0


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (CHOICES + "x,a,b,,C\n", CHOICE,
         r"line 4: expected the right one of 2 choices in 'label', as 0 to 1 or"
         " A to B. Received: 'C'. Count from 0"),
        (CHOICES + "x,a,b,c,AB\n", CHOICE, "line 4: .*Received: 'AB'"),
        (CHOICES + "x,a,,,0\n", CHOICE, r"line 4: expected two or more texts"),
        (CHOICES + "x,,a,b,0\n", CHOICE, r"line 4: .*none empty"),
        ("id,text,a,b,label\n7,dog,cat,a,A\n7,cat,un,dog,0\n",
         CHOICE | {"choices_column": "a,b", "id_column": "id"},
         "line 3: .*an id.*'id'.*'7'"),
        (RANKED + "q,a,-1\n", RANKING, r"line 7: expected a number from 0"),
        ("text,doc,label\nq,a,0\nq,b,0\n", RANKING,
         "a number above 0 in 'label'. Received: none"),
        (LABELS, MULTILABEL | {"labels": "big,neu"},
         r"line 2: expected one of the labels. Received: 'new'. .*'neu'"),
        (LABELS, MULTILABEL | {"metric": "f1"}, "metric of this multilabel"),
        (RANKED, {"kind": "ranking"}, "needs `own.text_pair_column`"),
        (CHOICES, CHOICE | {"text_pair_column": "b"}, "has `own.choices_col"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path, text, fields, message):
    with pytest.raises((errors.DataError, ValueError), match=message):
        build_own(tmp_path, text, **fields).read_split("train")
