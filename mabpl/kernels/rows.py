"""Finds rows by their key."""

from typing import Any

import numpy as np

if "jit" in globals():  # the engine puts numba's decorator here before it loads the file
    index: Any = np.uint64  # of an unsigned index numba does not ask whether it counts from the end
else:
    index = int

    def jit(function):  # type: ignore[no-untyped-def]
        return function


ONE = index(1)


@jit
def hold_rows(key, other, table, row):  # type: ignore[no-untyped-def]
    """Puts each pair of ``key`` and ``other`` into ``table``; ``row``: for each the first row of the same two.

    ``table``: -1 throughout; a power of two of places, more than there are rows. A row's place follows from its key.
    """
    last = index(len(table) - 1)
    for i in range(len(key)):
        place = index(key[i]) & last
        first = table[place]
        while first >= 0 and (key[index(first)] != key[i] or other[index(first)] != other[i]):
            place = (place + ONE) & last
            first = table[place]
        if first < 0:
            table[place] = first = i
        row[i] = first


@jit
def find_rows(held_key, held_other, table, key, other, row):  # type: ignore[no-untyped-def]
    """For each pair of ``key`` and ``other`` the first of the rows that ``table`` holds that has them, else -1."""
    last = index(len(table) - 1)
    for i in range(len(key)):  # nothing waits for these: most are what is sought
        row[i] = table[index(key[i]) & last]
    for i in range(len(key)):
        first = row[i]
        if first >= 0 and (held_key[index(first)] != key[i] or held_other[index(first)] != other[i]):
            place = index(key[i]) & last
            while first >= 0 and (held_key[index(first)] != key[i] or held_other[index(first)] != other[i]):
                place = (place + ONE) & last
                first = table[place]
            row[i] = first
