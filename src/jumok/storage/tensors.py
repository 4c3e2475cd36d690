"""The weights of a bundle as arrays; no torch.

Shapes are compared with the recipe's before a byte of a tensor is read.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from safetensors import SafetensorError, safe_open

from jumok.errors import ModelFileError
from jumok.storage.bundle import WEIGHTS, Bundle, check_header


class Tensors:
    """Weights by name: shapes at once, values when they are asked for; a wrong shape is an error."""

    def __init__(self, shapes: Mapping[str, Sequence[int]], read: Callable[[str], np.ndarray]) -> None:
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.names, self.read = self.shapes.keys(), read

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Tensors":
        """Return copies of arrays in memory."""
        return cls(
            {name: array.shape for name, array in arrays.items()}, lambda name: np.array(arrays[name], dtype=np.float32)
        )

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Return the tensor of this name, which must have this shape; nothing of another shape is read."""
        if name not in self.shapes:
            raise ModelFileError("storage.no_tensor", tensor=name)
        if self.shapes[name] != shape:
            raise ModelFileError("storage.wrong_shape", tensor=name, shape=self.shapes[name], expected_shape=shape)
        return self.read(name)


def read(bundle: Bundle) -> Tensors:
    """Return the weights of a bundle; tensors that the recipe does not imply are never read."""
    path = bundle.folder / WEIGHTS
    try:
        check_header(path)
        file = safe_open(str(path), framework="np")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
        other = next((name for name, part in slices.items() if part.get_dtype() != "F32"), None)
    except (SafetensorError, OSError) as error:
        raise ModelFileError("storage.cannot_read_weights", reason=error, file=path) from None
    if other is not None:
        raise ModelFileError("storage.not_float32", tensor=other, file=path)
    return Tensors({name: part.get_shape() for name, part in slices.items()}, file.get_tensor)
