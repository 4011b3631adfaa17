"""JSON files are read as objects, or refused by name."""

import pytest

from electra_tf.config import schema


def test_an_object_is_read(tmp_path):
    path = tmp_path / "a.json"
    text = '{"a": [1, -2.5, null, "é"], "b": {"c": 1' + "0" * 30 + "}}"
    path.write_text(text, "utf-8")
    assert schema.read_object(path) == {
        "a": [1, -2.5, None, "é"],
        "b": {"c": 10**30},
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"a": 1',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"[1]",
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a":' * 100_000,
    ],
    ids=lambda content: repr(content[:20]),
)
def test_everything_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)

    class OwnError(ValueError):
        pass

    with pytest.raises(OwnError, match=r"a\.json must hold a JSON object"):
        schema.read_object(path, OwnError)


def test_a_folder_is_refused_and_nothing_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="JSON object.*directory"):
        schema.read_object(tmp_path)
    with pytest.raises(FileNotFoundError):
        schema.read_object(tmp_path / "none")
