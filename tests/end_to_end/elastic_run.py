"""Trains on a number of logical CPUs.

python tests/end_to_end/elastic_run.py CONFIG_JSON MODEL_DIR NUM_REPLICAS
"""

import json
import pathlib
import sys

import tensorflow as tf

from electra_tf import config
from electra_tf.pretraining import run

if __name__ == "__main__":
    text, model_dir = map(pathlib.Path, sys.argv[1:3])
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[3]),
    )
    run.pretrain(config.freeze(json.loads(text.read_text())), model_dir)
