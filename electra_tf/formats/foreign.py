"""Foreign tensors under our names: complete both ways, or an error."""

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from electra_tf.formats import layout
from electra_tf.formats import parameter_names

# Others, as those of a quantized model, are no weights.
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_LONGEST_NAME = 200


def dtype_problems(kinds: Mapping[str, str]) -> list[str]:
    """Tensors that hold no floating point numbers, one line each.

    Args:
        kinds: name of a tensor to that of its dtype.
    """
    return [
        f"{_shorten(name)} holds {kind}"
        for name, kind in kinds.items()
        if kind not in _FLOATS
    ]


def precision_notes(kinds: Iterable[str]) -> list[str]:
    """Notes on dtypes that were converted to float32."""
    low = sorted(set(kinds) & set(_FLOATS) - {"float32"})
    return [f"{kind} weights became float32" for kind in low]


def _shorten(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}... ({len(name)} characters)"


class ForeignTensors:
    """The tensors of a file, looked up by what they are called here.

    Args:
        tensors: foreign name to array.
        rules: how our paths are called there.
        origin: where they are from, for messages.
    """

    def __init__(
        self,
        tensors: Mapping[str, np.ndarray],
        rules: Sequence[parameter_names.NameRule],
        origin: str,
    ) -> None:
        self.tensors = tensors
        self.rules = rules
        self.origin = origin

    def shape_of(self, path: str) -> tuple[int, ...] | None:
        """The shape that a path of ours has there; None if it is not there."""
        names = parameter_names.foreign_names(path, self.rules)
        if any(name not in self.tensors for name in names):
            return None
        shapes = {self.tensors[name].shape for name in names}
        if len(shapes) > 1 or () in shapes:
            # They cannot be joined.
            return ()
        return parameter_names.joined_shape(path, shapes.pop(), self.rules)

    def has_part(self, path: str) -> bool:
        """Whether the tensor behind one path of ours is there."""
        return self.shape_of(path) is not None

    def take(
        self, expected: layout.Shapes, may_be_unused: str = ""
    ) -> dict[str, np.ndarray]:
        """All tensors under our paths, as float32.

        Args:
            expected: our path to shape.
            may_be_unused: regular expression of foreign names that need not
                be among them.

        Raises:
            ModelError: lists what is missing, of another shape, no floating
                point numbers, or left over.
        """
        taken, problems, used = {}, [], set()
        for path, shape in expected.items():
            names = parameter_names.foreign_names(path, self.rules)
            used |= set(names)
            missing = [name for name in names if name not in self.tensors]
            problems += [f"{_shorten(name)} is missing" for name in missing]
            if missing:
                continue
            # Joined, integers among floating point numbers become such.
            found = dtype_problems(
                {name: str(self.tensors[name].dtype) for name in names}
            )
            found += self._shape_problems(path, names, shape)
            problems += found
            if not found:
                value = parameter_names.join(path, self.tensors, self.rules)
                taken[path] = np.ascontiguousarray(value, np.float32)
        problems += [
            f"{_shorten(name)} {self.tensors[name].shape} is not used"
            for name in sorted(self.tensors.keys() - used)
            if not (may_be_unused and re.fullmatch(may_be_unused, name))
        ]
        layout.require_none(problems, self.origin)
        return taken

    def _shape_problems(
        self, path: str, names: Sequence[str], shape: tuple[int, ...]
    ) -> list[str]:
        # Parts of a fused tensor must be alike, or they would shift. Single
        # numbers are no weights, even where the file alone tells the shape.
        if shape and self.shape_of(path) == shape:
            return []
        shapes = ", ".join(
            f"{_shorten(n)} {self.tensors[n].shape}" for n in names
        )
        return [f"{shapes} should make up {_shorten(path)} {shape or '(n,)'}"]
