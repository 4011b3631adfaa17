"""The errors of this package; messages state expected, received, remedy."""


class ConfigError(ValueError):
    """A setting that cannot work."""


class DataError(ValueError):
    """A corpus, vocabulary, dataset or task file that cannot be used."""


class ModelError(ValueError):
    """A model, checkpoint or run folder that cannot be read or written."""


class Stopped(KeyboardInterrupt):
    """A signal ended the work; all is saved. Repeat the command to continue."""


class WorkerLostError(ConnectionError):
    """Another host of a run has ended, hangs or never started."""


class ExportError(RuntimeError):
    """An export or a conversion that failed, or that gives other answers."""
