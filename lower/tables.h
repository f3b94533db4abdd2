// Constants of lower/math.cc that no short formula gives. Coefficients of polynomials begin with the lowest power. P of
// the tables kErf and kErfc is the Chebyshev approximation of erfc(x) * exp(x^2) / t as a function of t.
#pragma once

namespace autotune {

// The fraction bits of 2/pi in words of 24 bits, the highest word first. An f32 needs 192 bits: 128 for the range of
// its exponent and 64 for the precision of the result.
inline constexpr double kTwoOverPi[] = {0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041};
// pi/2 as a sum of terms of 22 bits, and the remainder. The product of such a term and a 31-bit integer is exact in
// f64.
inline constexpr double kHalfPi[] = {0x1.921fb00000000p+0, 0x1.5110b00000000p-22, 0x1.1846980000000p-44,
                                     0x1.3198800000000p-69, 0x1.1701b839a2520p-88};

// The polynomial in erf(x) = 1 - exp(-x^2) * t * P(t) with t = 1 / (1 + x/2).
// 1 <= x <= 6.5, relative error of the last term below 1e-14.
inline constexpr double kErf[] = {
    0.28209462805465247,  0.28210074548516398,  0.24673395614105976, 0.17730350606092984,  0.077039191773534057,
    0.027484431062906497, -0.16535079983090492, 0.2078355183551457,  -0.41933252757105845, 0.38262506508987186,
    0.22366955898168406,  -0.78164148990537935, 0.71420071848629557, -0.30968532125503131, 0.05492726691909065};
// 1 <= x <= 4.2, relative error below 2e-8.
inline constexpr double kErfSingle[] = {0.28258391885544639,   0.27459535332984733, 0.29535717191158719,
                                        0.0059029352012595311, 0.42750585431671285, -0.37866237753767375,
                                        0.092587614348166219};

// The polynomial in erfc(x) = exp(-x^2) * t * P(t) with t = 1 / (1 + kErfcScale x). At this scale the degrees are
// least.
inline constexpr double kErfcScale = 0.35;
// erfc is denormal above these arguments of f64 and f32.
inline constexpr double kGreatestErfc = 26.543258454250981, kGreatestErfcSingle = 9.194549;
// 0 <= x <= kGreatestErfc, relative error below 3e-17.
inline constexpr double kErfc[] = {
    0.19746635424828187,  0.19746635376986074,  0.18537155561833135,   0.16118159775931397,   0.12712422272139232,
    0.087586838716334371, 0.049029088701637344, 0.014573720105495666,  0.0043748185253844838, -0.043753425103320427,
    0.077014438557030403, -0.18705026343632473, 0.28515620525266464,   -0.24022003604485964,  -0.065989588285833214,
    0.64158418183350122,  -1.1781661986766354,  1.2772241120096654,    -0.9202331522146528,   0.44906793757094375,
    -0.14397408700305384, 0.027567351785620612, -0.0024020264107780553};
// The same for f32, relative error below 1.1e-8.
inline constexpr double kErfcSingle[] = {
    0.19750223893634344,  0.1967982208978424,   0.19059813808166193, 0.13911783549870293,  0.17970562826024009,
    0.026269173195070489, 0.043323866858584818, 0.12949234918845688, -0.13730241909215679, 0.0344949717265077};

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2. With r^2 times this polynomial, the error is below 3.2e-9 of exp(r), the
// least that five terms can reach (Remez).
inline constexpr double kExpSingle[] = {0.499999933730975718, 0.166665195240788588, 0.0416684010812714474,
                                        0.0083688510676732645, 0.00138143206996904916};

}  // namespace autotune
