"""erf.

``erf(x) = 1 - e ** -p(x)`` for positive x, where p is nearly a polynomial.
NaN gives NaN.
"""

from __future__ import annotations

from kernels.emit.vector_math.code import DOUBLE, SINGLE, Value
from kernels.emit.vector_math.exponential import expm1

# fmt: off
# -log(1 - erf(x)) / x - 1 from 0 to where erf is 1.
_END = {SINGLE: 4.0, DOUBLE: 6.0}
_POWER = {
    SINGLE: (0.128379171610782, 0.6366193820038851, 0.10277783008269074, -0.01915306209856453,
        -0.00016039974751075534, 0.0016670314484807667, -0.0006328391923936247, 0.00011764196821505527,
        -9.256347651560752e-06),
    DOUBLE: (0.1283791670955126, 0.6366197723675867, 0.10277260330134798, -0.019128446991820564,
        -0.00020919488879603653, 0.0016962080742507486, -0.000590135200338075, 2.591701238050278e-05,
        6.438091917492888e-05, -2.948468571315481e-05, 3.0131107817629074e-06, 3.338578589569534e-06,
        -2.2462611809200897e-06, 7.368249770028187e-07, -1.1556690883827161e-07, -1.4618568701616155e-08,
        1.4818810412523049e-08, -4.809672666341502e-09, 9.74746609839152e-10, -1.3333759939835275e-10,
        1.206605418237143e-11, -6.564462852713514e-13, 1.6314803725952778e-14),
}
# fmt: on


def erf(x: Value) -> Value:
    """The error function."""
    size = x.absolute().at_most(_END[x.format])
    power = size.polynomial(_POWER[x.format]) * size + size
    # Not negative but for the sign of zero.
    return x.is_nan().choose(x, expm1(-power).absolute().with_sign(x))
