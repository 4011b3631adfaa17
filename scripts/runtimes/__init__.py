"""The parts of `convert_saved_model.py`."""
