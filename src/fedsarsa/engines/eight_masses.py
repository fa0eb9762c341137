"""Drawing among up to eight masses at once: `choice.select` in one vector, without a loop."""

from functools import cached_property
from typing import Any

from fedsarsa._checks import Floats
from fedsarsa._numba import OPTIONS, Piece

WIDTH = 8


class _Select(Piece):
    """A piece written for LLVM, whose vectorizer does not find these sums."""

    @cached_property
    def compiled(self) -> Any:
        """Numba's own object."""
        import numba
        from numba.core.extending import intrinsic

        marked: Any = intrinsic
        types: Any = numba.types
        result = types.Tuple([types.float64, types.float64, types.uint64])

        @marked  # type: ignore[untyped-decorator]
        def call(
            _: Any, masses: Any, at: Any, counts: Any, classes: Any, uniform: Any, sums: Any, to: Any
        ) -> Any:
            return result(masses, at, counts, classes, uniform, sums, to), _generate

        return numba.njit(forceinline=True, **OPTIONS)(
            lambda masses, at, counts, classes, uniform, sums, to: call(
                masses, at, counts, classes, uniform, sums, to
            )
        )


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the instructions of ``select``."""
    from llvmlite import ir
    from numba.np import arrayobj

    make_array: Any = arrayobj.make_array
    masses, at, counts, classes, uniform, sums, to = arguments
    word, byte, bit = ir.IntType(64), ir.IntType(WIDTH), ir.IntType(1)
    vector = ir.VectorType(ir.DoubleType(), WIDTH)
    nothing = ir.Constant(vector, ir.Undefined)

    def pointer(argument: int, array: Any, place: Any) -> Any:
        data = make_array(signature.args[argument])(context, builder, array).data
        return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

    def load(argument: int, array: Any, place: Any) -> Any:
        return builder.load(pointer(argument, array, place), align=8)

    def arranged(values: Any, places: list[int]) -> Any:
        order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), places)
        return builder.shuffle_vector(values, nothing, order)

    # Sums of 2, 4 and 8 neighbours. Values are turned round and some of them added, not shifted with zeros:
    # LLVM shifts by vexpandpd, and four of those take fifty cycles on a Zen 4.
    sum_ = builder.fmul(load(0, masses, at), load(2, counts, word(0)))
    for by in (1, 2, 4):
        turned = arranged(sum_, [(k - by) % WIDTH for k in range(WIDTH)])
        added = ir.Constant(ir.VectorType(bit, WIDTH), [k >= by for k in range(WIDTH)])
        sum_ = builder.select(added, builder.fadd(sum_, turned), sum_)
    builder.store(sum_, pointer(5, sums, to), align=8)
    total = builder.extract_element(sum_, ir.IntType(32)(WIDTH - 1))
    target = builder.fmul(uniform, total)
    targets = arranged(builder.insert_element(nothing, target, ir.IntType(32)(0)), [0] * WIDTH)
    passed = builder.bitcast(builder.fcmp_ordered("<=", sum_, targets), byte)
    # Never beyond the last class, whatever rounding does to its sum.
    below_last = builder.sub(
        builder.shl(byte(1), builder.sub(builder.trunc(classes, byte), byte(1))), byte(1)
    )
    place = builder.zext(builder.ctpop(builder.and_(passed, below_last)), word)
    return context.make_tuple(builder, signature.return_type, [total, target, place])


def _select(
    masses: Floats, at: int, counts: Floats, classes: int, uniform: float, sums: Floats, to: int
) -> tuple[float, float, int]:
    """Draw among ``classes`` masses, which are ``masses`` times ``counts``, and zeros up to eight of them.

    Eight are read: ``masses`` from ``at`` on, and ``counts`` (8,). Their sums, each with those before it, are
    written to ``sums`` from ``to`` on. Returns their total, the target ``uniform`` times that, and the place
    where the sum passes the target. Kernels have the instructions of `_generate` in the place of this.
    """
    passing = masses[at : at + WIDTH] * counts
    for by in (1, 2, 4):
        passing[by:] += passing[:-by].copy()
    sums[to : to + WIDTH] = passing
    target = uniform * passing[-1]
    return passing[-1], target, int((passing[: classes - 1] <= target).sum())


select: Any = _Select(_select)
