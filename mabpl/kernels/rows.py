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
def first_rows(held, key, other, table, row):  # type: ignore[no-untyped-def]
    """For each row the first of the ``held`` rows at the beginning that has its ``key`` and ``other``, else -1.

    ``table``: -1 throughout; a power of two of places, more than ``held``. A row's place follows from its key.
    """
    last = index(len(table) - 1)
    for i in range(len(key)):
        place = index(key[i]) & last
        first = table[place]
        while first >= 0 and (key[index(first)] != key[i] or other[index(first)] != other[i]):
            place = (place + ONE) & last
            first = table[place]
        if first < 0 and i < held:
            table[place] = first = i
        row[i] = first
