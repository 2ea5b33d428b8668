"""Numpy models of the ways to multiply by a scale, instruction by instruction; int32 values as int64."""

import numpy as np

HIGHEST, LOWEST = (1 << 31) - 1, -(1 << 31)


def exact(value, multiplier, shift):
    total = shift + 31
    half = (np.int64(1) << total) >> 1
    return np.clip((value * multiplier + half) >> total, -(1 << 30), 1 << 30)


def high(value, multiplier, shift):
    return (((value * multiplier) >> 32) + (np.int64(1) << (shift - 2))) >> (shift - 1)


def power(value, multiplier, shift):
    return (value >> shift) - (value >> shift >> 1)


def arm(value, multiplier, shift):
    left, back = np.maximum(-shift, 0), np.minimum(-shift, 0)
    value = np.clip(value << left, LOWEST, HIGHEST)  # sqshl
    scaled = np.minimum((2 * value * multiplier + (1 << 31)) >> 32, HIGHEST)  # sqrdmulh
    nudged = np.maximum(scaled + ((scaled & back) >> 31), LOWEST)  # sqadd
    half = (np.int64(1) << -back) >> 1
    return (nudged + half) >> -back  # srshl


def int32(value, multiplier, shift):
    factor = ((multiplier >> 15) + 1) >> 1
    drop = np.maximum(shift - 6, 0)
    half = (np.int64(1) << drop) >> 1
    rounded = np.clip((np.minimum(value, HIGHEST - half) + half) >> drop, -(1 << 15), 1 << 15)
    rest = np.maximum(shift + 15 - drop, 1)
    return (rounded * factor + (np.int64(1) << (rest - 1))) >> rest


MODELS = {"exact": exact, "high": high, "shift": power, "arm": arm, "int32": int32}
