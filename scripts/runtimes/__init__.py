"""The parts of `convert_saved_model.py`.

`formats.py` takes one signature out of an export and turns it into what
another runtime reads; `converted_model.py` writes the folder, and checks it.
"""
