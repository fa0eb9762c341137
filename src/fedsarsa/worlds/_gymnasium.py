"""Gymnasium, which is an extra: with a clear word where it is needed and missing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gymnasium
else:
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(
            "this needs Gymnasium, which is not installed; install it with: pip install 'fedsarsa[gym]'"
        ) from error

__all__ = ["gymnasium"]
