"""Paths of users, the errors of stores, and who may open local files."""

import ast
import pathlib
import pickle
from unittest import mock

import pytest
import tensorflow as tf
from etils import epath

from electra_tf import storage
from electra_tf.processes import atomic
from electra_tf.records import corpus as corpus_lib

PACKAGE = pathlib.Path(__file__).parent.parent / "electra_tf"
# What knows local files alone, and the modules that may call it.
_ALLOWED = {
    "storage.py", "processes/atomic.py", "processes/locks.py",
    "processes/pool.py", "processes/stopping.py", "text/normalization.py",
    # In temporary folders, or copies.
    "export/self_check.py", "export/fresh_process.py",
    "formats/keras_hub_preset.py", "formats/tensor_files.py",
    "command_line.py", "fusion.py",
}  # fmt: skip
_HARMLESS = ("os.environ", "os.fs", "os.PathLike", "os.cpu_count",
             "os.sched_getaffinity", "os.SEEK_", "os.getpid", "os.sysconf",
             "os.EX_", "shutil.get_terminal_size")  # fmt: skip
_LOCAL = ("os.", "shutil.", "np.load", "np.fromfile", "np.save", "np.memmap",
          "fcntl.", "h5py.File", "safetensors.numpy.load_file")  # fmt: skip


@pytest.fixture
def folder():
    path = storage.path("ram://storage/folder")
    path.mkdir(parents=True, exist_ok=True)
    yield path
    storage.remove_folder(path)


def _local_names(path):
    """Calls of a module that know local files alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            is_harmless = name.startswith(_HARMLESS) or name == "np.save"
            if name.startswith(_LOCAL) and not is_harmless:
                yield name
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            yield "open"


def test_files_are_reached_by_methods_of_their_paths():
    """`np.save` is meant for temporary folders; no other reader is."""
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if (names := sorted(set(_local_names(path))))
    }
    assert found.keys() == _ALLOWED, found


def test_a_path_is_local_or_of_the_library(folder, monkeypatch):
    assert type(storage.path("a", "b")) is type(pathlib.Path("a/b"))
    monkeypatch.setenv("HOME", "/users/me")
    assert storage.path("~/a", "b") == pathlib.Path("/users/me/a/b")
    assert isinstance(folder, epath.Path) and not storage.is_local(folder)
    assert epath.Path("ram://storage/folder") == folder
    assert str(storage.path(folder, "x") / "y") == f"{folder}/x/y"
    assert pickle.loads(pickle.dumps(folder)) == folder


@pytest.mark.parametrize(
    "path", ["foo://x/y", "s3://bucket/x", "hdfs://x", pathlib.Path("gs://b/x")]
)
def test_what_nobody_can_read_is_refused_by_name(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scheme = str(path).partition(":")[0]
    message = f"gs://, ram://.*Received: {scheme}:"
    with pytest.raises(ValueError, match=message), atomic.creating_folder(path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_and_a_folder_complete_with_its_marker(
    folder, monkeypatch
):
    for text in ("one", "two"):
        with atomic.replacing_file(folder / "file") as partial:
            assert storage.is_local(partial)
            partial.write_text(text)
    assert (folder / "file").read_text("utf-8") == "two"
    copied = mock.Mock(wraps=tf.io.gfile.copy)
    monkeypatch.setattr(tf.io.gfile, "copy", copied)
    with atomic.creating_folder(folder / "made", "b") as partial:
        for name in "abc":
            (partial / name).write_text(name)
    sources = [pathlib.Path(call.args[0]) for call in copied.call_args_list]
    assert [path.name for path in sources] == ["a", "c", "b"]


def test_a_store_that_fails_damages_no_corpus(folder, monkeypatch):
    (folder / "a.txt").write_text("one\n")
    corpus = corpus_lib.open_corpus(f"{folder}/**/*.txt")

    def fail(*unused, **options):
        raise tf.errors.UnavailableError(None, None, "connection reset")

    monkeypatch.setattr(tf.io.gfile.GFile, "read", fail)
    with pytest.raises(OSError, match=f"{folder}/a.txt: connection reset"):
        list(corpus_lib.open_source(corpus.sources[0], corpus.options))
    monkeypatch.setattr(tf.io.gfile, "listdir", fail)
    with pytest.raises(OSError, match="connection reset"):
        list(folder.rglob("*"))
