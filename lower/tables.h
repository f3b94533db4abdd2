// Constants of lower/math.cc that no short formula gives. Coefficients of polynomials begin with the lowest power. The
// tables kErfc give the polynomial P in erfc(x) = exp(-x^2) * t * P(t) with t = 1 / (1 + x/2). P is the Chebyshev
// approximation of erfc(x) * exp(x^2) / t as a function of t.
#pragma once

namespace autotune {

// The fraction bits of 2/pi in words of 24 bits, the highest word first. An f32 needs 192 bits: 128 for the range of
// its exponent and 64 for the precision of the result.
inline constexpr double kTwoOverPi[] = {0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041};
// pi/2 as a sum of terms of 22 bits, and the remainder. The product of such a term and a 31-bit integer is exact in
// f64.
inline constexpr double kHalfPi[] = {0x1.921fb00000000p+0, 0x1.5110b00000000p-22, 0x1.1846980000000p-44,
                                     0x1.3198800000000p-69, 0x1.1701b839a2520p-88};

// 1 <= x <= 6.5, relative error below 1e-14.
inline constexpr double kErfc[] = {
    0.28209462805465247,  0.28210074548516398,  0.24673395614105976, 0.17730350606092984,  0.077039191773534057,
    0.027484431062906497, -0.16535079983090492, 0.2078355183551457,  -0.41933252757105845, 0.38262506508987186,
    0.22366955898168406,  -0.78164148990537935, 0.71420071848629557, -0.30968532125503131, 0.05492726691909065};
// 1 <= x <= 4.2, relative error below 2e-8.
inline constexpr double kErfcSingle[] = {0.28258391885544639,   0.27459535332984733, 0.29535717191158719,
                                         0.0059029352012595311, 0.42750585431671285, -0.37866237753767375,
                                         0.092587614348166219};

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2. With r^2 times this polynomial, the error is below 3.2e-9 of exp(r), the
// least that five terms can reach (Remez).
inline constexpr double kExpSingle[] = {0.499999933730975718, 0.166665195240788588, 0.0416684010812714474,
                                        0.0083688510676732645, 0.00138143206996904916};

}  // namespace autotune
