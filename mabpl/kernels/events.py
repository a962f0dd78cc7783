"""Matches the segments of a stream with what was said about them, each with a time and a cost."""

import numpy as np

if "jit" in globals():  # the engine puts numba's decorator here before it loads the file

    @jit_with_memory  # type: ignore[used-before-def, has-type] # noqa: F821
    def room(n):  # type: ignore[no-untyped-def]
        return np.empty(n, np.int64)

else:

    def jit(function):  # type: ignore[no-untyped-def]
        return function

    jit_with_memory = jit

    def room(n):  # type: ignore[no-untyped-def]
        return [0] * n


@jit_with_memory
def rooms(n):  # type: ignore[no-untyped-def]
    return room(n), room(n), room(n), room(n), room(n)


@jit
def insert_row(r, first, column, cost, none, u, v, row_of, column_of, near, before, seen):  # type: ignore[no-untyped-def]
    """Adds row `r` to the cheapest assignment of earlier rows, each to a column or, at the cost `none`, to none.

    The edges of row i, and their costs, are those from first[i] to first[i + 1]. Dijkstra's algorithm finds the
    shortest augmenting path, costs reduced by the potentials `u` and `v`; a free column keeps the potential 0. The last
    three arrays are room for a column each, `near` all -1.
    """
    i, last, base, best, end, found = r, r, 0, none - u[r], -1, 0  # ends at column `end`, or row `last` gets none
    while True:
        for e in range(first[i], first[i + 1]):
            c = column[e]
            far = base + cost[e] - u[i] - v[c]
            if near[c] < 0:
                seen[found] = c
                found += 1
            if near[c] < 0 or far < near[c]:
                near[c], before[c] = far, i
        if base + none - u[i] < best:
            best, last = base + none - u[i], i
        nearest = -1
        for s in range(found):
            c = seen[s]
            if before[c] >= 0 and near[c] < best and (nearest < 0 or near[c] < near[nearest]):
                nearest = c
        if nearest < 0:
            break
        if row_of[nearest] < 0:
            best, end = near[nearest], nearest
            break
        i, base = row_of[nearest], near[nearest]
        before[nearest] = -2 - before[nearest]  # below zero: done
    u[r] += best
    for s in range(found):
        c = seen[s]
        if before[c] < 0:
            before[c] = -2 - before[c]
            u[row_of[c]] += best - near[c]
            v[c] -= best - near[c]
        near[c] = -1
    if end < 0:
        end, column_of[last] = column_of[last], -1
    while end >= 0:
        i = before[end]
        row_of[end], column_of[i], end = i, end, column_of[i]


@jit
def settle_row(r, n, first, column, cost, none, u, v, row_of, column_of, via, queue):  # type: ignore[no-untyped-def]
    """Gives row `r` of `n` the earliest column that it has in any assignment as cheap, earlier rows as they are.

    Whoever it displaces moves on along edges that the potentials prove free of cost, until somebody takes the column
    that `r` leaves. Node `n` is everything that may be left or taken at no cost: free columns, those of potential 0,
    rows without a column.
    """
    own, open_end = column_of[r], -1
    for i in range(n + 1):
        via[i] = -1
    for wanted in range(first[r], first[r + 1]):
        goal = column[wanted]
        if goal == own:
            return
        root = n if row_of[goal] < 0 else row_of[goal]
        if cost[wanted] != u[r] + v[goal] or root < r or via[root] >= 0:
            continue
        queue[0], via[root] = root, root
        head, tail, node, to = 0, 1, -1, own
        while head < tail and node < 0:
            i = queue[head]
            head += 1
            if i == n:
                if own < 0 or v[own] == 0:
                    node = n
                for j in range(r + 1, n):
                    if via[j] < 0 and (column_of[j] < 0 or v[column_of[j]] == 0):
                        queue[tail], via[j] = j, n
                        tail += 1
                continue
            for e in range(first[i], first[i + 1] + 1):  # the last stands for no column
                c = column[e] if e < first[i + 1] else -1
                if (cost[e] - v[c] if c >= 0 else none) != u[i]:
                    continue
                j = row_of[c] if c >= 0 else -1
                if c >= 0 and c == own:
                    node = i
                elif j < 0 and via[n] < 0:
                    queue[tail], via[n], open_end = n, i, c
                    tail += 1
                elif j > r and via[j] < 0:
                    queue[tail], via[j] = j, i
                    tail += 1
        if node < 0:
            continue
        while True:  # back along the path, each row to its new column
            if node == n:
                if to >= 0:
                    row_of[to] = -1
                to = open_end
            else:
                if to >= 0:
                    row_of[to] = node
                column_of[node], to = to, column_of[node]
            if via[node] == node:
                break
            node = via[node]
        row_of[goal], column_of[r] = r, goal
        return


@jit_with_memory
def match_events(  # type: ignore[no-untyped-def]
    first_timeline, last_timeline, row, low, high, at, start, mention, time, accepted, in_order, owner
):  # fmt: skip
    """Matches mentions with segments: the most pairs, then the least total lateness, then the first list of pairs.

    The segments of timeline t are the rows from row[t], its mentions those from mention[t], both in order of time.
    Mentions low[r] to high[r] are in time for row r, and accepted[at[r] + k] says whether the k-th is about it (if
    empty, all are). Lateness is max(0, time - start). With `in_order`, mentions in order take the free segment that
    they are least late for, the earlier of equal ones. Writes into `owner` the segment of each mention, from 0 in
    its timeline; left as it is (-1) where none.
    """
    widest = 1
    for t in range(first_timeline, last_timeline):
        widest = max(widest, row[t + 1] - row[t] + 2, mention[t + 1] - mention[t])
    u, v, row_of, column_of, near = rooms(widest)
    before, seen, via, queue, first = rooms(widest)
    capacity = 8 * widest
    column, cost = room(capacity), room(capacity)
    for t in range(first_timeline, last_timeline):
        r0, m0, n = row[t], mention[t], row[t + 1] - row[t]
        total = 0
        for r in range(r0, r0 + n):
            total += high[r] - low[r]
        if total == 0:
            continue
        if total >= capacity:
            capacity = 2 * total + 1
            column, cost = room(capacity), room(capacity)
        edges, latest = 0, 0
        for i in range(n):
            first[i] = edges
            r = r0 + i
            for k in range(high[r] - low[r]):
                if len(accepted) == 0 or accepted[at[r] + k]:
                    column[edges] = low[r] + k - m0
                    cost[edges] = max(0, time[low[r] + k] - start[r])
                    latest = max(latest, cost[edges])
                    edges += 1
            u[i], column_of[i] = 0, -1
        first[n] = edges
        for c in range(mention[t + 1] - m0):
            v[c], row_of[c], near[c] = 0, -1, -1
        none = (latest + 1) * (n + 1)
        if in_order:
            for i in range(n):
                seen[i] = first[i]
            for c in range(mention[t + 1] - m0):
                best, least = -1, 0
                for i in range(n):
                    e = seen[i]
                    if e < first[i + 1] and column[e] == c:
                        seen[i] += 1
                        if column_of[i] < 0 and (best < 0 or cost[e] < least):
                            best, least = i, cost[e]
                if best >= 0:
                    column_of[best], row_of[c] = c, best
        else:
            for i in range(n):
                insert_row(i, first, column, cost, none, u, v, row_of, column_of, near, before, seen)
            for i in range(n):
                settle_row(i, n, first, column, cost, none, u, v, row_of, column_of, via, queue)
        for c in range(mention[t + 1] - m0):
            if row_of[c] >= 0:
                owner[m0 + c] = row_of[c]
