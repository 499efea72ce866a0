"""Decoding of the block types of GGUF, equal to ``gguf.quants.dequantize`` to the bit.

A block holds scales and small integers, the codes. Each decoder takes blocks [blocks, size] and writes their numbers
[blocks, elements]. Derived from gguf 0.19; the formats are defined by ``ggml-common.h`` and ``ggml-quants.c``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import BY_NAME

_Bytes: TypeAlias = NDArray[np.uint8]
_Floats: TypeAlias = NDArray[np.float32]
_AT_ONCE = 2**16
"""Numbers decoded at a time, so that codes and numbers stay in the CPU cache."""

_EVERY_BIT = tuple(range(8))
_PAIRS_OF_BITS = (0, 2, 4, 6)
_E2M1 = np.array((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), np.int8)
"""Doubled values of the codes of MXFP4 and NVFP4."""

_UNEVEN = np.array((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.int8)
"""Values of the codes of IQ4_NL and IQ4_XS."""

_SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32)
"""Signs [256, 8] by a byte with a bit for each negative number."""

_EVEN = np.array([code | code.bit_count() % 2 << 7 for code in range(128)], np.uint8)
"""Bytes of signs by their first seven bits: the number of negative signs is even."""


def decoded(name: str, raw: _Bytes, shape: tuple[int, ...]) -> _Floats:
    """Return the numbers of blocks.

    Args:
        name: Name of the block type, a key of ``DECODERS``.
        raw: Bytes of all blocks, one row after the other.
        shape: Shape of the numbers.
    """
    kind, decoder = BY_NAME[name], DECODERS[name]
    blocks = raw.reshape(-1, kind.size)
    made = np.empty((len(blocks), kind.elements), np.float32)
    step = _AT_ONCE // kind.elements
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(blocks), step):
            decoder(blocks[start : start + step], made[start : start + step])
    return made.reshape(shape)


def _half(blocks: _Bytes, start: int) -> _Floats:
    """Return the F16 number at a byte of every block [blocks, 1]."""
    return blocks[:, start : start + 2].copy().view("<f2").astype(np.float32)


def _split(codes: _Bytes, group: int, shifts: tuple[int, ...], mask: int) -> _Bytes:
    """Return the codes packed in bytes [blocks, groups · shifts · group], those of the first shift first in a group."""
    grouped = codes.reshape(len(codes), -1, 1, group) >> np.array(shifts, np.uint8)[:, None]
    grouped &= np.uint8(mask)
    return grouped.reshape(len(codes), -1)


def _scaled(scales: _Floats, codes: NDArray[Any], made: _Floats) -> None:
    """Write codes [blocks, elements] times the scales [blocks, groups] of their groups."""
    groups = (*scales.shape, -1)
    np.multiply(scales[..., None], codes.reshape(groups), out=made.reshape(groups))


# --- one scale per block ---------------------------------------------------------------------------------------------


def _q4_0(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _split(blocks[:, 2:], 16, (0, 4), 15).view(np.int8) - np.int8(8), made)


def _q4_1(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _split(blocks[:, 4:], 16, (0, 4), 15), made)
    made += _half(blocks, 2)


def _fifth_bits(packed: _Bytes) -> _Bytes:
    """Return bits [blocks, 8 · bytes] as 0 or 16."""
    bits = np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")
    bits <<= 4
    return bits


def _q5_0(blocks: _Bytes, made: _Floats) -> None:
    codes = _split(blocks[:, 6:], 16, (0, 4), 15)
    codes |= _fifth_bits(blocks[:, 2:6])
    _scaled(_half(blocks, 0), codes.view(np.int8) - np.int8(16), made)


def _q5_1(blocks: _Bytes, made: _Floats) -> None:
    codes = _split(blocks[:, 8:], 16, (0, 4), 15)
    codes |= _fifth_bits(blocks[:, 4:8])
    _scaled(_half(blocks, 0), codes, made)
    made += _half(blocks, 2)


def _q8_0(blocks: _Bytes, made: _Floats) -> None:
    np.multiply(blocks[:, 2:].view(np.int8), _half(blocks, 0), out=made)


def _iq4_nl(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _UNEVEN[_split(blocks[:, 2:], 16, (0, 4), 15)], made)


def _tq1_0(blocks: _Bytes, made: _Floats) -> None:
    """Three-valued codes, five in a byte as the digits of a fraction to the base 3."""
    parts = []
    for start, stop, digits in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        powers = np.array([1, 3, 9, 27, 81][:digits], np.uint8)[:, None]
        parts.append((blocks[:, None, start:stop] * powers).reshape(len(blocks), -1))
    codes = (np.concatenate(parts, axis=1).astype(np.uint16) * np.uint16(3)) >> np.uint16(8)
    _scaled(_half(blocks, 52), codes.astype(np.int8) - np.int8(1), made)


def _tq2_0(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 64), _split(blocks[:, :64], 32, _PAIRS_OF_BITS, 3).view(np.int8) - np.int8(1), made)


# --- K types: a scale for each group of 16 or 32 numbers, itself in units of the block's -----------------------------


def _q2_k(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 80) * (blocks[:, :16] & 15).astype(np.float32)
    least = _half(blocks, 82) * (blocks[:, :16] >> 4).astype(np.float32)
    _scaled(scales, _split(blocks[:, 16:80], 32, _PAIRS_OF_BITS, 3), made)
    made.reshape(-1, 16, 16)[:] -= least[..., None]


def _q3_k(blocks: _Bytes, made: _Floats) -> None:
    low, high = _split(blocks[:, 96:104], 8, (0, 4), 15), _split(blocks[:, 104:108], 4, _PAIRS_OF_BITS, 3)
    scales = _half(blocks, 108) * ((low | high << 4).view(np.int8) - np.int8(32)).astype(np.float32)
    codes = _split(blocks[:, 32:96], 32, _PAIRS_OF_BITS, 3).view(np.int8)
    # A set bit of the mask means that nothing is subtracted.
    unset = _split(~blocks[:, :32], 32, _EVERY_BIT, 1)
    _scaled(scales, codes - (unset << 2).view(np.int8), made)


def _scales_and_least(blocks: _Bytes) -> tuple[_Floats, _Floats]:
    """Return the scales and least values [blocks, 8] of the groups of Q4_K and Q5_K, both packed in 6 bits."""
    scales, least, both = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    six = np.concatenate([scales & 63, (both & 15) | ((scales >> 2) & 48)], axis=1)
    other = np.concatenate([least & 63, (both >> 4) | ((least >> 2) & 48)], axis=1)
    return _half(blocks, 0) * six.astype(np.float32), _half(blocks, 2) * other.astype(np.float32)


def _q4_k(blocks: _Bytes, made: _Floats) -> None:
    scales, least = _scales_and_least(blocks)
    _scaled(scales, _split(blocks[:, 16:], 32, (0, 4), 15), made)
    made.reshape(-1, 8, 32)[:] -= least[..., None]


def _q5_k(blocks: _Bytes, made: _Floats) -> None:
    scales, least = _scales_and_least(blocks)
    codes = _split(blocks[:, 48:], 32, (0, 4), 15)
    codes |= _split(blocks[:, 16:48], 32, _EVERY_BIT, 1) << 4
    _scaled(scales, codes, made)
    made.reshape(-1, 8, 32)[:] -= least[..., None]


def _q6_k(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    codes = _split(blocks[:, :128], 64, (0, 4), 15)
    codes |= _split(blocks[:, 128:192], 32, _PAIRS_OF_BITS, 3) << 4
    codes -= np.uint8(32)
    _scaled(scales, codes.view(np.int8), made)


def _iq4_xs(blocks: _Bytes, made: _Floats) -> None:
    high = blocks[:, 2:4].copy().view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    low = _split(blocks[:, 4:8], 1, (0, 4), 15)
    scales = _half(blocks, 0) * ((low | high.astype(np.uint8) << 4).view(np.int8) - np.int8(32)).astype(np.float32)
    _scaled(scales, _UNEVEN[_split(blocks[:, 8:], 16, (0, 4), 15)], made)


# --- floating-point scales of 8 bits ---------------------------------------------------------------------------------


@cache
def _e8m0() -> _Floats:
    """Return 2^(code − 128) for every code: half of the scale, as the values of the codes are doubled."""
    codes = np.arange(256, dtype=np.uint32)
    small = np.uint32(0x00200000) << np.minimum(codes, 1)
    return np.where(codes < 2, small, (codes - np.uint32(1)) << np.uint32(23)).astype(np.uint32).view(np.float32)


@cache
def _e4m3() -> _Floats:
    """Return half of the positive E4M3 number of every code; the sign bit is ignored, and 127 is 0."""
    codes = np.arange(256)
    power, digits = codes >> 3 & 15, (codes & 7).astype(np.float32)
    found = np.where(power == 0, digits * 2.0**-9, (1 + digits / 8) * 2.0 ** (power - 7.0))
    found[[0, 127]] = 0
    return (found / 2).astype(np.float32)


def _mxfp4(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_e8m0()[blocks[:, :1]], _E2M1[_split(blocks[:, 1:], 16, (0, 4), 15)], made)


def _nvfp4(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_e4m3()[blocks[:, :4]], _E2M1[_split(blocks[:, 4:], 8, (0, 4), 15)], made)


# --- codebooks -------------------------------------------------------------------------------------------------------


def _from_codebook(name: str, places: NDArray[Any], scales: _Floats, signs: _Bytes, made: _Floats) -> None:
    """Write vectors of a codebook [blocks, vectors], scaled [blocks, groups], with a byte of signs per 8 numbers."""
    vectors = np.take(codebook(name), places, axis=0)
    _scaled(scales, vectors.reshape(made.shape), made)
    made *= _SIGNS[signs].reshape(made.shape)


def _words(blocks: _Bytes, start: int, stop: int, dtype: str) -> NDArray[Any]:
    return blocks[:, start:stop].copy().view(dtype)


def _even_signs(words: NDArray[Any]) -> _Bytes:
    """Return the bytes of signs [blocks, 4 · words] in the lowest 28 bits of words [blocks, words]."""
    sevens = words[..., None] >> np.array((0, 7, 14, 21), np.uint32) & np.uint32(127)
    signs: _Bytes = _EVEN[sevens].reshape(len(words), -1)
    return signs


def _nibble_scales(packed: _Bytes) -> _Bytes:
    return _split(packed, 1, (0, 4), 15)


def _iq2_xxs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 2, 66, "<u4").reshape(len(blocks), 8, 2)
    scales = _half(blocks, 0) * (np.float32(0.5) + (words[..., 1] >> 28).astype(np.float32)) * np.float32(0.25)
    places = np.ascontiguousarray(words[..., 0]).view(np.uint8)
    _from_codebook("IQ2_XXS", places, scales, _even_signs(words[..., 1]), made)


def _iq2_xs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 2, 66, "<u2")
    scales = _half(blocks, 0) * (np.float32(0.5) + _nibble_scales(blocks[:, 66:])) * np.float32(0.25)
    _from_codebook("IQ2_XS", words & np.uint16(511), scales, _EVEN[words >> 9], made)


def _iq2_s(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 0) * (np.float32(0.5) + _nibble_scales(blocks[:, 74:])) * np.float32(0.25)
    high = _split(blocks[:, 66:74], 1, _PAIRS_OF_BITS, 3).astype(np.uint16)
    _from_codebook("IQ2_S", blocks[:, 2:34] | high << 8, scales, blocks[:, 34:66], made)


def _iq3_xxs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 66, 98, "<u4")
    scales = _half(blocks, 0) * (np.float32(0.5) + (words >> 28).astype(np.float32)) * np.float32(0.5)
    _from_codebook("IQ3_XXS", blocks[:, 2:66], scales, _even_signs(words), made)


def _iq3_s(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 0) * (np.uint8(1) + np.uint8(2) * _nibble_scales(blocks[:, 106:]))
    high = _split(blocks[:, 66:74], 1, _EVERY_BIT, 1).astype(np.uint16)
    _from_codebook("IQ3_S", blocks[:, 2:66] | high << 8, scales, blocks[:, 74:106], made)


def _shifted(places: NDArray[Any], scales: _Floats, negative: NDArray[np.bool_], made: _Floats) -> None:
    """Write vectors of the codebook of IQ1_S [blocks, vectors], shifted by ∓1/8 [blocks, shifts] and scaled."""
    vectors = np.take(codebook("IQ1_S"), places, axis=0).reshape(*negative.shape, -1)
    vectors += np.where(negative, np.float32(-0.125), np.float32(0.125))[..., None]
    _scaled(scales, vectors.reshape(made.shape), made)


def _iq1_s(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 34, 50, "<u2")
    scales = _half(blocks, 0) * (np.uint16(2) * (words >> 12 & np.uint16(7)) + np.uint16(1))
    high = (words[..., None] >> np.array((0, 3, 6, 9), np.uint16) & np.uint16(7)).reshape(len(blocks), -1)
    _shifted(blocks[:, 2:34] | high << 8, scales, words & np.uint16(0x8000) != 0, made)


def _iq1_m(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 48, 56, "<u2")
    # The F16 scale of the block is spread over the highest bits of the four words of group scales.
    nibbles = (words & np.uint16(0xF000)) >> np.array((12, 8, 4, 0), np.uint16)
    scale = np.bitwise_or.reduce(nibbles, axis=1, keepdims=True).view(np.float16).astype(np.float32)
    groups = (words[..., None] >> np.array((0, 3, 6, 9), np.uint16) & np.uint16(7)).reshape(len(blocks), -1)
    nibbles_of = _split(blocks[:, 32:48], 1, (0, 4), 15)
    high = (nibbles_of & np.uint8(7)).astype(np.uint16)
    scales = scale * (np.uint16(2) * groups + np.uint16(1))
    _shifted(blocks[:, :32] | high << 8, scales, nibbles_of & np.uint8(8) != 0, made)


DECODERS: Mapping[str, Callable[[_Bytes, _Floats], None]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ1_S": _iq1_s,
    "IQ1_M": _iq1_m,
    "IQ2_XXS": _iq2_xxs,
    "IQ2_XS": _iq2_xs,
    "IQ2_S": _iq2_s,
    "IQ3_XXS": _iq3_xxs,
    "IQ3_S": _iq3_s,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
    "TQ1_0": _tq1_0,
    "TQ2_0": _tq2_0,
    "MXFP4": _mxfp4,
    "NVFP4": _nvfp4,
}
"""Decoders by the name of the block type."""


# The vectors are those of ggml (``ggml-common.h``, MIT licence), found there by quantising typical weights; no formula
# gives them. Each component is stored as its place among the few values that it can have.
_CODEBOOKS: dict[str, tuple[tuple[int, ...], int, str]] = {
    "IQ2_XXS": (
        (8, 25, 43),
        8,
        "000621po*D3IGuR6aXLqA^<1=DgZ$ML;z3#SO8%FWB`Bwf&hvDq5uH_1OX5M6#+m2gaMcV00II6A_9T}0R#jD5CkCvBm_VNLIg+zU<82#gan"
        "WTqyzv30tE;KAO%JRX$61<kp&3`5C%X7ga)Jr00;#L2nZAiC<s9aL<mp_QV56$1PMS10tyrg0T2Wb5D*~{KoDRMgb<Jrl@I_C2oWF=P!U=Yf"
        "Dt4TMG^oM2oxX`B@{^%fD{-NVif=u78U^*1Q-w)Kp24-02u`tpczpb03ZS&3Lr!vVIY7Yf*>g&NFe|s0wMt<1SAk7KqOWq03|^sWF?R$2q+*"
        "Zlqf_h0YC&m5I`6}AwVQRKtM=9RzP4tfk1>nkU#)IAVFb4fI)>p0YVT$NJ3UZXhHx)2t*)6fJB)@5=A6M07d~w1V|7_KuASM07+O$VM&5XMM"
        "{uL08j`}5l|UWAW(o%h)@JkLQ$kqky4OUl2i&+0ajF209X-N8CYakKv@V{1Yi(gKwxNK0AW>O7-C>z0AvMZ5M>f&gk?f#0DuC33V=a?f`9~p"
        "7=b{65rP4P1cVTT6@);9V1xjLMun7x35Gz1V1@#S1c?!f1dtGrB#=Omp^z4lfRRO#0F)w>M3hmLftVnf0-#W!g`f$c0HPSAP^bi{",
    ),
    "IQ2_XS": (
        (8, 25, 43),
        8,
        "000621po*D3IGuR6aW?g82}&vA^;@-C;&kKL;ywrNdQm)QUFx|SO8%FWB`Bwf&hg8hyalQlmM9kpa1~@1OWyC2>}oR5&;zf7y%jqAps--Kmk"
        "GlMFB_wQ2|r|U;$_WfdPa8kO2S!0s;jB2m%oT6apXuK>|bqPy$r~fC7pF0R#jD1_TKN5Cjqg6$BUrAp|4@Km<YrMFdC$Q3O;3Rs>)KfdqsEk"
        "OTk)0tE#H2n7)Z6a^p!K?OtwPz7NHfCT{t1O^ZWCI&zTLI#8e00;sI1qcWT3J4Jh6bK*)B?v(XL<mp_SO|a!pa`l60SN>N5D7pDfeDET016-"
        "qC<>Mepb7yH1P}%g2@ntv5)c&-7!V;4BoIIlLJ&m|NDxsFR1jbgY7l`Cgb<Jr01*Na1rZ1l5fKy-AQ3?kL=jLCfDx1tmJtCG1QG@k5E4KVU="
        "jcn0u%)l2ow<%6civ7K@>z3Nfb~NWE6lD0Tl!l5EVcb02UM$NfrSZ1Q-w)5*R=jR2YUB02u`tW*Jc$sTu$v0w4t-2p|d|5g-&GARs{?L?BQg"
        "fFPhC0U-n-5FtPzNFik*03sqHfFh_O0VD(@5F{xiKqLSqK_yZpnI!=x8YZSD04NA33Me2bRVaukq9|x7kSPc%AS!|?h$@OI0YC&m20#fw5I_"
        "<@6+jq3AwVQRKtMu3ML<YEN<dLSR6t-rWk7*Igg}r$06_vl1wjZw5kV9|AVEPvL_ttNfI)>pqCo*d1VRu(5<)3LKtcdS0z?Hw2t*M?6hs+BA"
        "Vfh#L_|<TfJBr;0YwBw5Je<KKt-BG07eQ%L`G0X0Z0T$5J*5sMMzXgVn_f<5lKWzP)TV?1WEu<0#F4|2v8AF6i^^gC{RIAL{LyrfKUNZ1W^!"
        "C6;VJ@LQw!xL{h3!0aOH35L6*lKvZB<fmESX096Q8fK`Z9Ay#Nsp;iD`6j(u6P*|B*8d*SDLRp1c0bm4R5MV%HRA6FYhG3~+0AVCzN@9{?0A"
        "v<q5M@ARMP;OA0cdJyC20m~RBB>s0DuC31%L>E5r7ncAb=`>L4ZVnP=J7df`F)is(=B31c3&D5P?8}QGr>30D>TbfP#X8pn|A^0fYpE5QGwh"
        "6@);9V1$W;0EI+_rG*%VYK8!a2#6(!T8My%f{3Vy28kkyfQpEUmWrr~0gwcc5RgESR*-~{0Ffe*WRX^qiIM=61(ZaTP?T7dDV30wl9fT0QJA"
        "KfNtqRzV447+0-y+>3ZNjMDxjdCQK4C(rlA0$0-^|_Dx!d*prSyem84~+n5GJ-AgCg!D5#*QsHg;~gsFz9D5@%|k*cby",
    ),
    "IQ2_S": (
        (8, 25, 43),
        8,
        "000621po*D3IGuR6aW?g82}&vA^;@-C;&kKL;ywrNdQm)QUFx|SO8%FWB_IWX#ju#f&hg8hyalQlmMUrr2wh`0RaR71_22H5CIYa6#*ClAps"
        "--KmkGlMFB_wQ2|r|RsmT7U;$+TXaRu%gaMENk^z+gp#h`;00II61p){H5dstfAOb1^K>|bqMgmC!Py$r~fC7aAiUO1Zq5=T~1Ox^I2?P)X5"
        "(E_l7z7~%Bm^b|DFi?SLIgzwNCZj*Q3O;3Rs>lDU<6_WWdwl)gan2Ji3E@Yl?0dsp#-D^00jaC1qBEN3I!1b6a^Lq83iB(B?Tx2K?OtwMg>U"
        ")Pz6#2RRvfDVFhFbfCYjDg$0NOkp+|mpalU21O^5M2?h`b6$U^CMFvO)Q3g~7U<QE(ga(iX00;sI1qcWT5eO6r76=&#AP6N0DhNRcL<mL*Ne"
        "EB~QV3NDSO{SVWC(x=g$R@gst5rI1PKrc5(yOv7zrT>KnX<&NC{C1R0&`SfeDZa016Qb6bd2=C<-bHPzsp}0T2Wb1`r7l5D*d&6%ZH@ArK@G"
        "CJ;anLJ&m|NDxsFR1j7WSrA|lVi08zXb^!Agb;=hkPwv+m=K{5q!0iR0ucof2oVYq5fKy-77-Z{AQ2)FB@rkQK@mg|MiEI7P!UoQRS{SbVG("
        "2zfDwWbg%OAmkr9*;0TKif2@((z6%rv5BoaUpMG{dGR1$#_gc6Vv02Bfg1r!Jr5fl^@78Ds2AQUAOC=@{yL=;98Nfb~NQWRAbSQKFtWE6lDf"
        ")s@mh!l|&loX&80Tl!l1{Dbv5ET*?6%`m2Ar&MQKovq2MHNUDQ594bU=@KCgcXn#02T!n2o@0*6c!*BK^8<7P!@m|sulql1Q-Sw2^bI<6&M&"
        "8As9dyLKsCDNElHVR2X0wff$4s02u-q1sMn#5g8O2AQ?d!L>W*SX&Is!1R4+;KpIvW03ZS&1t16@5g-&G79bfQARr|mDj-21L?BQgQXo|zWF"
        "UYbiXfCAsvrR&1R)S15+M~KAt68^LLo&VQ6W?zU?G7agdvb203r$^A|favDk4N8P$GyTiXx~Y0VD(@1|$h25F`~O7$hMiBqTs2LL@~bNF-4t"
        "R3u;|fh2?^kR$*l1tkb25hWBQASFR1L?uuqW+i|n0VV_{5GFt-StbA|1t<|H6evL`L?}=wiYTfm0VxD25Gj=@3MwKhWGaX%iYfs>1V9Er2|y"
        "4)5<nF|7(g08AwVQRCO|+yLO?}8NI*(JQ9x8cRzO)mU_fF(Wk7*Igg}r$l|Yz4p+KZS06_vl1wjZw5kV9|7C{+7AVDHQB|$+!L_tPDNkLFSQ"
        "bAQgSV3VyWI=#If<c8rh(VD-ltG|D0YU^q5JD0{6+#$7Btk$!MM6kIQ9@KgU_yaHghBvB0z?Hw2t*1*5kwS37DO3DAVeZWB}6DhK}1AEMnp+"
        "OP()HhRYX`sVMJs^fJA~sg+z!%kwlb4phN*h1Vsi#2}KY^5=9k77)2pPBt<|)LPbSINJUXaR7GG#YDIxXghh}=07e2v1x5%)5k?e7AVxt(L`"
        "G0XfJUW80Z0T$2}lq~5=a$D7)T*VBuGF=LP$kONJvpgR7hY*gh-G`07(K#1xW}=5lIwDAW1<<L`hIdfJv4~0ZIf)5K2Hw08j!@1yBf35l|FR"
        "7El>bAW$MuB~U0(K~O|cMo>vmP*74(RZv(^VNhgHfKY-^g;0o4kx-OS0Z{}|22lx75K$6Q6;T*bAyFhzKv6<bMNvpmQBhP;U{Qflgi(-D08#"
        "}~2vQMJ6jC5kK~h9gP*Q19fKmZe1XKo82~-eN5>ypb7*rutBve3DLR3XmNK{c&R8(M8fmDQ4kW>Iw0#yZ72vreP6jdNqK~+RmP*s3c0agT75"
        "LPBuKvn=)0$2rD2v`wV6j&fwL0CjsP*_@6fLH-p1X&PSKv@7<8Cr!}s9FJF1YibW5MUBu6<`=(Az&n6Kww2+NMKQ5RA69WgkX?h0AT`Q1z`w"
        "b5n&WzAYnmaL}5^2fMJ<o1Y!_kKw?&6p<)1J1!M?h5o8o(AY?&gL}XB8fMfw>1Z5CqKxIm0Xl0UR0A`eC0cZqh5NKs+m}mfLDrrJ$p=tnt0)"
        "Pd82!IiQ6o46kAb=%+L4ZVnP=Hc^Re)H4VSs>ug@BQOlz;(&1c3>G5P=eb6@eImA%P@;K!HMmMS)0xQGrx}fq{g9kb$Xz0D=XA3W5=W6oNs5"
        "M1oL)0fYpE280QO5QGwh6@(asA%sALLWD(xNQ6;@RD@uJfrNyFkc0q*0)+*I2!#=a6onv#L4`zxP=$bniiH7&1cnfXDTY9X0Eh*M5r`CsL5M"
        "_%P>7<40f_{OK#66EB8pgwT8e^-qKW~K1ds`k5Rej(6_6N^B#=OmLXbs}NRUyGRFGhhfslldkdOe81(6Yv6p=xZM3GRDT9E;g1d<SvK$51C0"
        "F(lh1(XPs5tI~^Ae2FrM3hjJfRvV$0hI)m5S2icn3bWG0G39UWR?M#1eg$*CYV5&sh9wnNtsfakeUFX1)vI`6rduYDxg82M4(WhqM)jvK%r%"
        "!0-_3{BBCgwDx!j-h@y(3sG<R+1f&q8K%|MJq@)0)8KqIC3aBWkqNr4<hN%du3aTKgBC05=h^nfp",
    ),
    "IQ3_XXS": (
        (4, 12, 20, 28, 36, 44, 52, 62),
        4,
        "000621OO2L695+gAOIo&F#tjUa{zS!0RaO65CIYaAps=;Faa_FK><_&Z~*`U0s;gA5dt6rA_6f2GXggPQ36*2bpinc2LliT5(6aza03$rHv~"
        "ikR|Inebp!zg2L&<(QUx^zWCjoi6bBXuLkD380T2Ta5D*d&ArK=FFc2~jG!RD+P!IqS0ud1rAQ2)F0TKfe5E2p+ArdeWauNU&0uvw;F%w1;W"
        ")lGv1r$&eAQdDPMip@t1r{O~Ko<ZY0w56}6CfZUA|NIpF(5)90U-k+1tAb25+NZWFd<_hXCZJQ03re+5h52NAR;0nHzGhHRU!c+5F->La3gd"
        "hH6&9c10^RVK_zr00Ve||7AHj~0Wc6S5-=e!BQQ`fWiWCu05JkFATcp9L@`D&0Wt$J5Hck)QZjNf5i>J0Ff>Orax?%n1~nozRW%egHa256Gd"
        "Ey21V9%+H9$8&Q$SZhbU`3OH$p%{U_xd>2SY_e1Vm9pWJD!JLq%{!1xFA^5=Ssc5>P=<a8LkI22mzaRZ$dDGE#C<0#j2{5L6>nCscA&0#z|p"
        "P*x;YLRTbUL|{f>WMCm-VPO|yWMVL5He*C&1!YoYGiC#4A!h?{1#ky&5O6YZQg9}5KyeasMRHPd0CN>{Gjm{bA#_1>0CfU&By})$",
    ),
    "IQ3_S": (
        (1, 3, 5, 7, 9, 11, 13, 15),
        4,
        "000310ssX72LKQN5dabZ6aW?gAOIl%B>*!3KmbAjMF2+tQ2<i_U;ttOaR77xcK`qZ0RaL51OX5M5djqeAORx*Cjl`5H338cVF6_UasdDW0Rj"
        "aA2LccR69N_jAp#`=Fak6JLIOnsM*>j-Qvz@Ta{>bc5d#$iAOj);F#|ILHUmThPy<o}X9IBqbprqd69g9oAp|4@G6X;bLj+L-a0CJc1O*@kA"
        "_XP|GX+5fMFmF%W(9Kv1_luZ69zE`QU-Ab00#mG1P34oA_pc1GY3!yR0jYM0T2QZ1P~Aq5fBp)6%ZE?AP^!DF%UEmHV{-0RuEwjau5I!0TBZ"
        "c1`!Yu6cHg2FcC8mK@m_9QW0<wb`by)5)u^>7ZM;6BoZ<bKoUa|RT5wlauNX(1QQ1n5EBy<ArmJPFcUNrK@(yVa1#R*1r!n#6cjNOGZaD;Mi"
        "fvKR1^Uf5ET;@Ar&wcG8Iu3AQmJRCl*8&Miv1V0~Zh%5*HyCH5Wk_Vi#~103ZP%10V$;2Otn25+D>H79b%YBOoUrFd#A@K_EjQMIcZhQXpp_"
        "a3FIabszvC0wE9~6CoENA|WLqF(EV|LLpHh0U`t<2O=RNBO)*&HzGkIQzBO)aUygg03!k;1tSq7A|oUtF(Wf0LL*QkW+MS42P7aQBP22;H6%"
        "eKawK&m1SJtAA|*E^KqXTpa3ugH0wxD0AtqHOVI~D95ho@mFegJNP$vQ~5ik=l6)+btA}}#9GcYwULNG)yM=((^V=!?r0WkwH1u+ycAu%H{K"
        "rvu3axr!>05TFXATlyCG%`>!0W%OY6f+?+BQqy6Ff&0jLo-J+RWoxl12hpd7BnI>F*H&%U^HYj0W}ac5;Y|?GBrdsRyA`q7B)dP0XG9TAU7g"
        "6H8%i21V9o%AV4HQCqOblK|oMIa6ke<2SE`*6G0+DFhMmzLqSnNRY3tl140l&6+$6GGeST@S3+V!a6$w_5knJ0AVVTUF+(*&07L>rBt$nvKt"
        "ypw1w{u%Aw^<E6Gk*fU`7x}6-O{fLq}0Z0#Fc86i^~iKu|<bM^I8wW>9oc0Z{`{1yK@FAyG0>a!~+M5mF;kFj6*BQ&Iv`2U8GJCsRaIQB!48"
        "b5j9S1XLhYGE_!X5>+NuQB_k_LRJD-1Xm(g5nvNw6<{%7Ghkp~0AV0uCt+k^5@IxBLSj{7Vq$P&0AmzmA!9&eC1gWnVq^ei17$R2U}XhnKxP"
        "qV6K4Q$1aJp%AaEjZHgG_2RB&Q&0&x*>BymG=MR5Ug1ac5^7IGnSFmh3H0&_BRHFHyQ0dxg)6LcVSP;?@7LUjUmF?IlV",
    ),
    "IQ1_S": (
        (-1, 0, 1),
        8,
        "000621po*D3IGuR6#yUrA^<1=DgZ?QQ2<l`RsdxHfB=F3hyaQJl>ndsq5!A>ssIE51pyHO6af|i837srB>_PJMgd6yQUO%~S^;4JWC3OYXaR"
        ")*kpYwemI0*!00II62m%TM6#^gvA_6D^Dgs3UQ36>4WCCddfC7R7hyscNkph(hnF62!q5`M_ssa%N6a*FoB?LhPNd#2{S_EVSWdxA~nFOT-0"
        "R;pF1qB8L6$Kat8U-l@Km|nwN(E2_Q3X^5RRvZBSp{GPVg+RdXa#Bofd!ETl?9jungyW+qy?n~rUj`56b2avK?XzyPzF*4RR&lFU<P3ZW(H{"
        "ng$9uZlm?jw00;sI2nY%Y6$l^*A_yo5DhNdgQ3zHDWe9)>f(VERiU^empa`M}s0gYE1ql%e6bTs#Bnc%6K?zU^Q3+KEVF_djX$g@DlnIsznF"
        "*x{015&M2nq@c6$&5<A_^!9DhfpkQ3_cKVG3mmfC_>Ng$jrYiVBqqpbDZ2s0ykI5D*a%6c8B@BoHMKK@da`P!LrRSP)?lWDsQ#X%LYRln|B>"
        "p%A4I0TBcd1`!Dn5D^j)6%iN_ArT}IDG@~xN)b>IQ4vxRR1sAXRuNedU=d{zgb|Vvl@Xy4q!AGk6cQE^B@#dqMiNO9QW8}XSQ1(iWD;f)g%X"
        "hxloFN_r4j)Y1{4Vt6ciN{7!(;4ArvMQK@>$4MifXCN)%BPR1{SdRuowjViaW*XcUALi4>3&loXW|m=u{5niQcFq!gtTsT2Yg1r-Vv5fu~_6"
        "%`g085JNEA{8YSC>1IdK@~(5MHNOBQ58}ZR25YfRux$lS`}dxWEEu<W)*1_fE9ujgcXGqh!u(zkQI>?logc~mKB*5niZfGq7|hT0Tu)n1r`P"
        "t6&4m27#129Ar>YUKo&w4L>5IBNES*KQ5IDeRu)(mSr%ayWEN!>XclP}Y8HkTiWZU<l@_EHsTL6!78oTMK^R0BMi@yLP#9GhSQuIuU>IQ-WE"
        "f@`X&8kVkr<R1r5F$y5*Za48W|xOB^g2)L>WaHNEuNXR2fwnRvB3tS{Yy&Wf^K2i5Za@k{Oj5m>HoNrWvUj2^tm}BpN0fL>fjKNg7ZZQW{kn"
        "SQ=p(W*TW4g&L6>mKvHG03ZS&2p|d|6(ArWA|NFoC?F~zMIcciSs-B`Wgvhcf*^<>iXfFBpdg|kr68yvsvrd+5g`;I86hPhLLo#UNg-7sSRq"
        ";=VIgE8Wg%uEg&~k3mLZuTr6B<#2qFq15h4{LAR;0nC?YB%MIuomRw7v<Wg>whh$4z2ks_5Mpdz9os3NK&1tb(C79<%YB_u>7MI=TfNhDGvR"
        "U}v>S|ny9g(Q(Alq8uXp(Ldw2_+RJAtfm#KqW;bNF`AvR3%j<StVj6WhH1Oi6xLFlqHoVm?fGep(UgxrX{H*1tt(C5+)fYB_=^8NhVb$U?yQ"
        "EX(ogwh9;0EnkE1!0w@S53MdsQASfazC@3l@MJQ1yR48RAfGC0}h$xCEpeUj!s3@u^2`LdN6e$@gB`HQJNhwk(RViU9WGQATX(@#%kSUfanJ"
        "J_xr6~X^0xAe93MwEfA}S~<Dk?=PQ7Tp{St?~JfGUD2h$@OIl`5brqAI8=swxFQ5kM9|B|u3)Qb1KeSU_4pVL)U+W<ZocnLwdHra%Be0YL;o"
        "20;ly5<wL~7C{(68bKjJCP67dML|eGN<mRUR6$iiRzX=oT0vz&XhCX0fkA{phCz@)l0lV0ph2NQqCo{h5keF~7D6RLK|)eORYF=qWI|~|i9("
        "b@r9uHj6+{_CDMUp?NJL6RQAAWkRYX=qVMJm?WkhI1YD9rVhD3=(kVKM1l|-OKp+u=f0Yw5u1w{%)5k(Y56-5?B8ATvPB}FPlK}AGGMMXwMN"
        "kvdaQAJcmRYg`sSVdVyVMSy`WkqI1X+?rXghho#h((b_ltq<AmPMIGnnk5Ws70zp0Y(Kz2}Tq~6-F3F8b%>TBt|JlKt@7FMMg+QP)1QkQbtu"
        "qRz_JyVn$^~XhwlXg+_`-ltz_Cp+=-erbY!w5l9tC8b~EbLP$wSP)JosSV&<=WJqR6X-I`gkw}zCmPnaMrAPru1xW@;3P})26iF3H7)c>XBu"
        "OSoKuJYON=Z>kQb|-vRY_J!SxI0?Vo7C5W=U#EhDnJ@l1Y_GmPwdNp-H4krb($u7D_})MoLLaRZ3V&T1sR}X-bqzrAh%%1W*M~22cr55>ORT"
        "8c-onBv2_(Ku|?cNKjEwR8Un=R!~_`Wl(5PhER!6l~9;apirSurckL+1yKl52~i4B5m6LT6;T#Z7*QEfAW<bzCQ&F+Dp5gEL{UXiMo~#oP*G"
        "7)Qc+Y<RZ&(^SW#I~T2Wz9WKm^NW>INTf>DK0kx`UUl~I;anNgrorBSL;0a6B15>gdX8d4!rBvL|BMN&#qQBqV=RZ><`SyEzBWm1JwkW!LTl"
        "~S2fno^`v1XKl75mXdZ6;u{f7*rWlAyg$)C{!v`K~zLkMN~#qNmNQyP*hP=R8&<|R#aG2SyWn7VN_yNWK?BTW>jfZfK-T7id2zQlvI^emQ<N"
        "kp;V+)rBtd^0aXH31XTr922}}F5LFRX5>*sc6;&2h8C4opAyp(*B~>O>DOEsKK~+LkL{&vqMpZ~vNmWo)QB_h^R8>_~R#jM4Syft9U{zsNWL"
        "0HVW>siaX;o@ffmMW6g;j}FidB$RkyVscl~tBim{plop;e?+rB$X?sZ{`00agN51Xc!C2v!MJ5mppd6;>El8CD=xAyy(*BvvI>CRQj`DON#N"
        "MOH>uNLEQ!N>)%-QC3n`R9011R#sS6SyozBVOC^TWmaicf>woAhE|AHiB^hMkye#fnpUD#rB<d^s8*>~1Xu-F23QGL5Lgvh7+4`#Dp*BWNLW"
        "f(QCL)1RajP7SXfzDU|3>UWLRZbf>?=IkXVvfl~|Zqp;)O{0a*fB1z8GN5m^*j6<HQp8CfM+L0LpuMOj8!Nm)=?QCU)1R9RJ7R#{kCSy@_HV"
        "OeBZWm#rfX<30;g;|MNky(^km06Zqm|2-wrC9`82wD|d8d@M)C0Zt0DOyEZNLoo+QCd}6R$5qESz2ORWm;%jYFdF>idvFdm0Ffsm|B`zp;`r"
        "C6krx$8DJ$~L|{;0RbW<NSYTRUVPIrnW?*Sxfnb(krC<SJ1YrhY31Jdp6=5M^B4H+BDPcunNnuf8Rbf_PSz%>iW?^b!gkg$dl3|r$p<$+Bsb"
        "LXf7GfD<Kw?2+Mq*WBR$^FUU}A-0kz$r&rD73e5@Z!*7GxS^A!H_GDP%xoLS#i`NMuT6QDjtPRb*CVS!7ydU}R!sWn_e8g=C3jkYti%lw_4;"
        "mSmV@nq;A5q-3dN1!V|j3S|*x6=fD>8D&IeMP){1No7!FQDszRRb^IXS!H2mWMyS#W@Tw*hGmImie-^ym1UM?nPr+~qGhFJre&yQ0%i$j6=o"
        "o2CT1vRDP}-sMP^85N@h`JRAyCXR%TdcT4rEoWoBq*fM$Ybg=UIolxCJ@m}Z$~pk}0Ire>;U7HAo0C1^otQfO6ZT4-TtX=sILk!YA`rf30a1"
        "Zfay6=@-9BxxpTDQQ4yL1{&4MrlZCQE60ZRcTgfS!rNtWoc?@f@y?lifNT;p=qRPrD>^Y5o#7{7-~UkL~2QDP-<0bSZZ2oWNKw<X=;XQlxmo"
        "2nrfzM0DuC32!INJAb=u(D1a(}MSxI%QGir{R)AT6Wq^Qyf`EvCihz}Xpn#%)sDP?~1%VNP6oD3j8G$8%L4ibpNr6y-Qh`;0R)JW7S%GAMW`"
        "Sveg@K8Il!2CknSrH&0D=O72!aZN6@nmwB7!J_DuPjhRDxN8WrBc$f`W*Gih`Abpn{@;sDi436oeUsL4-tvQG`{5T7+SQWQ1vil!Tdt0fh;L"
        "5``6o8igi>DTP3VL4`$yNQF^_RE1TAR)txGT7_kWW`$^lYK4J?goTEMiG`4bl7*Fpn1!Z=5r!6q8HOc>L54(zNrp;>P=-~8S%zAMVTNXgYKD"
        "b|k%pRvq=o>90*DBR3WybmAc!J}D2OVEL5M|&QHWHCS%_tbX^4P`f{2KSiinknpopS~sEDeF1&IcU5s4Iu7KtT^L5W0(Mu|y@P>E8BRf$@OV"
        "Tojkg^8AlnTe%|0Ez;N2#N}d6^bB=B8n)ADvCvlQHoTGR*Ha%f{KWWii(wrpo*f3sEVqJ1&|St7LXW_8IUEAL6Am}Nsv{LSddzfX^?7=g^-b"
        "ul#rH?nUJNB0g(ie29XJo5Rny;7?B#0A(14JCXp$TK#@g}P?1rQRFPGYR*_keVv%K$gpr1kl982>n3188q>-kPsgVVe5t0;=8ImQEM3P35Ns"
        ">^KQj%4YSdwOvX_AGKl#-T`sgePd1e6Ap5R?^^7?dWIK$J?9QIu4aRg_kgSd>|mV3c8$Vw7c+gp`Jql9ZH`m6Vv2p_HkV0F?!m2$c$z5S0;?"
        "6qOZ~7L^&5A(bVSDU~XfL6t<6MU_UCNtIBQQI%4aRFzegR+U(lS(RFqVU=W+WtC=?X_bMMg_Vevk(H8_l$Dj0mX(>6nw6lHqLrnUsFkXf0hR"
        "=o5SA5|8I~ZHCYC9dMV3gGNtRKTQkGSgR+d?oWtM1`f|i7qiI$3%l9rT~m6oKIrk1Ie1(+6?8JH!QL6}CEP?%DfRhU+oT9{;*WtfGSk(id4n"
        "V6-R1epez37HU?5}6g57?~QGAekYVB$+0eK$$|BMVUyMN|{laRGC$oR+(9uVwq)`W|?Z4ftiGvkeQO1m6@8Ep_!(c1)3F_C7MK<Mw&^QP?}Y"
        "mSejv)g_@C?l$w>AmYM*d0-y+>3ZNCBAfO_kD4;5!MW9ijRG?O%S)hQRf}n_?ilCLCprE3lsGzE#1)&L{5up^J7NHrT8lgs^Nug1pRiRj+TA"
        "^W~WTAzjkfD;HmZ6!U0-^|_3Zf9A8KNShD55H&MWRunR-##=Wukzhf})6`ilUXGprWFpsG_Q(8KfnoL8L^aP^46(Ris#?TBKp5Wu#`LXryVR"
        "g`@_h38fIF5~UTT7^NnqDWyWCMWs=tRHap=R;5{`Wu<DRfu)3{g{6k2iKUXIm8F=a1*Q?E7N#1eA*Lm!M5acjN~Th#Ri;*^Sf*g6Vy1?skfx"
        "QUmZq7ep{As!rltU>0;mY63aB8cBB&^+DyUJYRH#;{S*U=hf~bh7il~*Sps1p#sHm!_1*sIN8L1(uC8<HFP^nd^TB%{FW~phZkg1lb0ICA22"
        "&xLIAgUs&D5@%|QL0p`R;qxif~ttBimH{WpsJ#(sH&=}",
    ),
}
"""Values of a component, components of a vector, and the packed places, the lowest bits of a byte first."""


@cache
def codebook(name: str) -> NDArray[np.float32]:
    """Return the vectors [vectors, components] of a type."""
    values, width, packed = _CODEBOOKS[name]
    bits = 2 if len(values) <= 4 else 4
    raw = np.frombuffer(base64.b85decode(packed), np.uint8)
    places = (raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)
    vectors: NDArray[np.float32] = np.array(values, np.float32)[places].reshape(-1, width)
    vectors.flags.writeable = False
    return vectors
