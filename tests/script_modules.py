"""Scripts as modules, several in one process."""

import importlib
from types import ModuleType

from absl import flags


def load(name: str) -> ModuleType:
    """Imports a script, and forgets its flags: another has the same names."""
    module = importlib.import_module(f"scripts.{name}")
    for flag in flags.FLAGS.get_flags_for_module(module.__name__):
        delattr(flags.FLAGS, flag.name)
    return module
