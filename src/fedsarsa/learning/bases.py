"""The features of continuous observations. A new kind is a file in this folder and a line here."""

from fedsarsa._numba import dispatch
from fedsarsa.learning.continuous_features import Basis, ContinuousFeatures
from fedsarsa.learning.fourier import FourierBasis as FourierBasis
from fedsarsa.learning.function_features import FunctionBasis
from fedsarsa.learning.random_fourier import RandomFourier as RandomFourier
from fedsarsa.learning.rbf import RBF as RBF
from fedsarsa.learning.tile_coding import TileCoding as TileCoding

# All classes of features imported above. Kernels know their bases by place.
CONTINUOUS: dict[str, type[ContinuousFeatures]] = {
    name: features
    for name, features in list(vars().items())
    if isinstance(features, type)
    and issubclass(features, ContinuousFeatures)
    and features is not ContinuousFeatures
}

BASES: list[type[Basis]] = [*(features.basis for features in CONTINUOUS.values()), FunctionBasis]

# The first argument is the number of the basis, the others are those of its own piece.
encode = dispatch([basis.encode for basis in BASES])


def number(basis: type[Basis]) -> int:
    """The number of the registered basis with the same compiled piece."""
    for place, known in enumerate(BASES):
        if known.encode is basis.encode:
            return place
    raise ValueError(
        f"{basis.__name__} must belong to features with a line in learning/bases.py to be compiled; "
        "engine 'reference' trains with it without"
    )
