"""Fewer cases than the product of all options."""

from itertools import combinations, product


def pairwise(*axes, kept=()):
    """Rows of the product of ``axes``, in which every two values of different axes meet at least once.

    A mistake that takes one option, or two together, shows in some row; one that takes three may not. Rows
    that must be there whatever is chosen are ``kept``.
    """
    rows = list(product(*(range(len(axis)) for axis in axes)))
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    chosen = [tuple(axis.index(value) for axis, value in zip(axes, row, strict=True)) for row in kept]
    missing = set().union(*pairs.values()).difference(*(pairs[row] for row in chosen))
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return [tuple(axis[k] for axis, k in zip(axes, row, strict=True)) for row in chosen]
