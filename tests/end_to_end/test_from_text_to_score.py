"""The whole path, by the commands that README gives."""

import json

from electra_tf.training import reporting
from tests import script_modules
from tests.end_to_end import test_storage
from tests.script_modules import ROOT


def test_text_becomes_a_served_discriminator(tmp_path):
    corpus, model_dir = tmp_path / "corpus", tmp_path / "model"
    test_storage.write_text(corpus)
    commands = [
        ("train_vocabulary", f"--corpus={corpus}", "--vocab_size=120",
         f"--output_dir={tmp_path}/vocabulary"),
        ("build_pretraining_dataset", f"--corpus={corpus}",
         f"--vocab_file={tmp_path}/vocabulary",
         f"--output_dir={tmp_path}/dataset", "--max_seq_length=32",
         "--validation_fraction=0.1"),
        ("run_pretraining", f"--config={ROOT}/configs/pretrain/tiny.py",
         f"--config.data.dataset_dir={tmp_path}/dataset",
         f"--model_dir={model_dir}",
         # Traced in half the time of two.
         "--config.encoder.num_hidden_layers=1",
         "--config.objective.generator_steps=20",
         "--config.training.num_train_steps=60",
         "--config.training.log_steps=20", "--config.training.eval_steps=30",
         "--config.optimizer.num_warmup_steps=5"),
        ("export_saved_model", f"--model_dir={model_dir}",
         f"--export_dir={tmp_path}/export"),
        ("score_text", f"--saved_model={tmp_path}/export",
         "--text=the cat eats some bread .", "--swap=eats:bread"),
    ]  # fmt: skip
    finished = [script_modules.run(*command) for command in commands]
    for done in finished:
        assert done.returncode == 0, (done.args, done.stderr)
    assert "The first step is being traced" in finished[2].stdout
    lines = reporting.read_lines(model_dir / "metrics.jsonl")
    training = [line for line in lines if line["split"] == "train"]
    held_out = [line for line in lines if line["split"] == "validation"]
    assert [line["step"] for line in training] == [20, 40, 60]
    assert [line["step"] for line in held_out] == [30, 60]
    assert training[-1]["gen_loss"] < training[0]["gen_loss"]
    assert held_out[-1]["loss"] < held_out[0]["loss"]
    assert json.loads((model_dir / "summary.json").read_text())["step"] == 60
    assert (model_dir / "training_curves.png").stat().st_size > 10_000
    assert "swapped word is number" in finished[4].stdout
