"""Fixtures of several files."""

from tests.formats.presets import preset as preset
from tests.formats.presets import written_preset as written_preset
