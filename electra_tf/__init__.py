"""ELECTRA pre-training in TensorFlow 2 and Keras 3.

The sub-packages are the stages of the data's journey and may import only from
the stages before them (`tests/test_import_order.py` holds them to it):

    config < text < records < inputs < modeling < training < pretraining
           < export < finetuning < verification < analysis

Importing this package does not import TensorFlow.
"""

__version__ = "0.1.0"
