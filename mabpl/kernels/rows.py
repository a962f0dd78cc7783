"""Finds rows by their key."""

if "jit" not in globals():  # the engine puts numba's decorator here before it loads the file

    def jit(function):  # type: ignore[no-untyped-def]
        return function


@jit
def first_rows(held, key, other, table, row):  # type: ignore[no-untyped-def]
    """For each row the first of the ``held`` rows at the beginning that has its ``key`` and ``other``, else -1.

    ``table``: -1 throughout; a power of two of places, more than ``held``. A row's place follows from its key.
    """
    last = len(table) - 1
    for i in range(len(key)):
        place = key[i] & last
        while table[place] >= 0 and (key[table[place]] != key[i] or other[table[place]] != other[i]):
            place = (place + 1) & last
        if i < held and table[place] < 0:
            table[place] = i
        row[i] = table[place]
