"""Our optimizers against the original's and tensorflow-addons' numbers."""

import ast
import json
import shutil

import pytest

from electra_tf.verification.optimizer import check_optimizer

ADDONS_CASES = {
    "tfa_adamw",
    "tfa_adamw_schedule",
    "tfa_adamw_sparse",
    "tfa_lamb",
    "tfa_lamb_adaptation_excludes",
    "tfa_multi_adamw_layerwise",
    "tfa_multi_lamb_layerwise",
}


def assert_all_passed(results):
    assert [r for r in results if not r.passed or r.skipped_reason] == []


def test_the_stored_trajectories_are_reproduced(golden):
    results = check_optimizer(golden / "optimizer")
    assert_all_passed(results)
    compared = {
        result.case.removesuffix(", trajectory")
        for result in results
        if result.case.endswith(", trajectory")
    }
    originals = {"finetune_layerwise", "pretrain_linear"}
    assert compared == ADDONS_CASES | originals


def test_all_references_are_reproduced_along_60_steps(oracles):
    results = check_optimizer(oracles / "optimizer")
    assert_all_passed(results)
    moments = [r.case for r in results if r.case.endswith("final moments")]
    assert len(moments) == 3


@pytest.mark.parametrize(
    ("case", "key", "value"),
    [
        ("pretrain_linear", "epsilon", 1e-5),
        ("pretrain_linear", "exclude_from_weight_decay", ["LayerNorm"]),
        ("pretrain_linear", "clip_norm", 1.5),
        ("finetune_layerwise", "n_transformer_layers", 13),
        ("tfa_adamw", "weight_decay", 0.002),
        ("tfa_lamb", "exclude_from_layer_adaptation", ["embeddings"]),
        ("tfa_multi_lamb_layerwise", "layer_decay", 0.81),
    ],
)
def test_one_wrong_setting_is_a_miss(golden, tmp_path, case, key, value):
    source = golden / "optimizer"
    shutil.copy(source / f"{case}.npz", tmp_path)
    config = json.loads((source / f"{case}.json").read_text())
    config[key] = value
    (tmp_path / f"{case}.json").write_text(json.dumps(config))
    assert not all(result.passed for result in check_optimizer(tmp_path))


def test_an_unknown_optimizer_is_reported_as_skipped(golden, tmp_path):
    source = golden / "optimizer"
    shutil.copy(source / "tfa_adamw.npz", tmp_path)
    config = json.loads((source / "tfa_adamw.json").read_text())
    config["optimizer"] = "tensorflow_addons.optimizers.NovoGrad"
    (tmp_path / "tfa_adamw.json").write_text(json.dumps(config))
    (result,) = check_optimizer(tmp_path)
    assert "NovoGrad" in result.skipped_reason


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="optimizer cases"):
        check_optimizer(tmp_path)


def test_the_addons_script_needs_nothing_of_this_project(request):
    script = request.config.rootpath / "scripts" / "recompute_addons.py"
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
        )
    }
    assert not imported & {"electra_tf", "keras", "absl", "ml_collections"}
