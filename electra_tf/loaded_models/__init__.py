"""Trained models as Python objects, for use after `electra_tf.load`."""
