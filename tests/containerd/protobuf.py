# SPDX-License-Identifier: Apache-2.0
"""protobuf messages written by hand, as much of it as clients of gRPC need here."""


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def encode(fields):
    """[(number, str | int | bytes | list of fields)] -> bytes"""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        if isinstance(value, list):
            value = encode(value)
        if isinstance(value, str):
            value = value.encode()
        out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def decode(data):
    """bytes -> {number: [values]}"""
    every, i = {}, 0

    def number():
        nonlocal i
        n = shift = 0
        while True:
            byte = data[i]
            i += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while i < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            i += value
            value = data[i - value : i]
        every.setdefault(key >> 3, []).append(value)
    return every
