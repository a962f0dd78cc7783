"""The matching kernels: plain loops over sorted arrays with offsets.

One file, loaded in two ways (see :mod:`mabpl.engine`): as it stands, which is fastest for small jobs, and compiled by
numba, which is fastest for large ones. No tables, no files, no names of columns. Everything that is compared is an
integer: microseconds for overlaps, and for boundaries the unit of the time base (1/30 s, or nanoseconds).

A timeline's segments come in the order (start, end, position). Index -1 means "no match". The definitions are those of
:mod:`mabpl.reference`, which says the same without speed. Where a loop could branch on the data it adds a comparison
instead: a branch that cannot be foreseen costs as much as ten sums.

Pairs stand in rows: the pairs of row r are those from row[r] to row[r + 1].
"""

import numpy as np

if "jit" in globals():  # the engine puts numba's decorator here before it loads the file

    @jit  # type: ignore[used-before-def] # noqa: F821
    def room(n):  # type: ignore[no-untyped-def]
        return np.empty(n, np.int64)

else:

    def jit(function):  # type: ignore[no-untyped-def]
        return function

    def room(n):  # type: ignore[no-untyped-def]
        return [0] * n


@jit
def rooms(n):  # type: ignore[no-untyped-def]
    return room(n), room(n), room(n), room(n), room(n)


WIDEST_ROW = 64  # up to this many pairs a row, proposing is faster than sorting
PAIR_BITS = 13  # of a sort key: up to 8,192 pairs a timeline, and values below 2**49


@jit
def greater(a, b, c, d):  # type: ignore[no-untyped-def]
    """Whether a/b > c/d, exactly, for 0 <= a, c and 0 < b, d below 2**52."""
    x = a / b
    y = c / d
    if x != y:  # division rounds correctly, hence monotonically: only equal quotients need a closer look
        return x > y
    while True:
        i = a // b
        j = c // d
        if i != j:
            return i > j
        a -= i * b
        c -= j * d
        if a == 0 or c == 0:
            return a > 0
        a, b, c, d = d, c, b, a


@jit
def scored_segments(first, last, start_s, end_s, scored, units_per_s, start, end, start_unit, end_unit, at):  # type: ignore[no-untyped-def]
    """Starts and ends, in microseconds and in whole units, of those of first..last that are scored, and which they are.

    Returns their number; `at` counts from `first`.
    """
    n = 0
    for i in range(first, last):
        start[n] = round(start_s[i] * 1e6)
        end[n] = round(end_s[i] * 1e6)
        start_unit[n] = round(start_s[i] * units_per_s)
        end_unit[n] = round(end_s[i] * units_per_s)
        at[n] = i - first
        n += scored[i]
    return n


@jit
def are_disjoint(n, start, end):  # type: ignore[no-untyped-def]
    overlaps = 0
    for i in range(n - 1):
        overlaps += end[i] > start[i + 1]
    return overlaps == 0


@jit
def overlapping_pairs(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union):  # type: ignore[no-untyped-def]
    """Overlapping pairs of `ny` human and `nx` predicted segments, a row a human, in order of the predictions.

    Fills `row`, and the last four arrays as far as they reach (at least `nx + ny`); returns how many pairs there are.
    """
    if not are_disjoint(ny, h_start, h_end) or not are_disjoint(nx, p_start, p_end):
        return _sweep(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union)
    n = 0
    h = 0
    p = 0
    row[0] = 0
    while h < ny and p < nx:  # whoever ends first meets nobody else
        human[n] = h
        predicted[n] = p
        shared = min(h_end[h], p_end[p]) - max(h_start[h], p_start[p])
        overlap[n] = shared
        union[n] = (h_end[h] - h_start[h]) + (p_end[p] - p_start[p]) - shared
        n += shared > 0
        row[h + 1] = n
        human_is_done = h_end[h] <= p_end[p]
        p += p_end[p] <= h_end[h]
        h += human_is_done
    for rest in range(h, ny):
        row[rest + 1] = n
    return n


@jit
def _sweep(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union):  # type: ignore[no-untyped-def]
    """The same where segments of a side overlap each other: a sweep over all starts.

    Whoever starts meets those of the other side that have not ended. Each pair is met once and each segment leaves
    once, so the work is the number of segments plus the number of pairs.
    """
    capacity = 2 * (nx + ny)
    met_human, met_predicted = room(capacity), room(capacity)
    n = 0
    open_humans, open_predicted = room(ny), room(nx)
    n_open_humans = 0
    n_open_predicted = 0
    for h in range(ny + 1):
        row[h] = 0
    i = 0
    j = 0
    while i < ny or j < nx:
        if n + n_open_predicted + n_open_humans > capacity:
            capacity = 2 * capacity + n_open_predicted + n_open_humans
            larger_human, larger_predicted = room(capacity), room(capacity)
            for s in range(n):  # a loop, because numba takes seconds to compile the assignment of a slice
                larger_human[s], larger_predicted[s] = met_human[s], met_predicted[s]
            met_human, met_predicted = larger_human, larger_predicted
        kept = 0
        if j == nx or (i < ny and h_start[i] <= p_start[j]):
            for s in range(n_open_predicted):
                p = open_predicted[s]
                if p_end[p] > h_start[i]:
                    open_predicted[kept] = p
                    kept += 1
                    met_human[n] = i
                    met_predicted[n] = p
                    row[i + 1] += 1
                    n += 1
            n_open_predicted = kept
            open_humans[n_open_humans] = i
            n_open_humans += 1
            i += 1
        else:
            for s in range(n_open_humans):
                h = open_humans[s]
                if h_end[h] > p_start[j]:
                    open_humans[kept] = h
                    kept += 1
                    met_human[n] = h
                    met_predicted[n] = j
                    row[h + 1] += 1
                    n += 1
            n_open_humans = kept
            open_predicted[n_open_predicted] = j
            n_open_predicted += 1
            j += 1
    # Each human met its predictions in ascending order, so a stable counting sort by human orders the pairs.
    for h in range(ny):
        row[h + 1] += row[h]
    for s in range(n - 1, -1, -1):
        h = met_human[s]
        p = met_predicted[s]
        row[h + 1] -= 1
        at = row[h + 1]
        if at < len(human):
            human[at] = h
            predicted[at] = p
            overlap[at] = min(h_end[h], p_end[p]) - max(h_start[h], p_start[p])
            union[at] = (h_end[h] - h_start[h]) + (p_end[p] - p_start[p]) - overlap[at]
    for h in range(ny):
        row[h] = row[h + 1]
    row[ny] = n
    return n


@jit
def boundary_pairs(ny, nx, h_start, h_end, p_start, p_end, tolerance, human, predicted, nearness):  # type: ignore[no-untyped-def]
    """Pairs with both ends within `tolerance`, by prediction; `nearness` is twice the tolerance less the total error.

    Fills the last three arrays as far as they reach and returns how many pairs there are.
    """
    n = 0
    low = 0
    for p in range(nx):
        start = p_start[p]
        end = p_end[p]
        while low < ny and h_start[low] < start - tolerance:
            low += 1
        h = low
        while h < ny and h_start[h] <= start + tolerance:
            end_error = abs(h_end[h] - end)
            if end_error <= tolerance:
                if n < len(human):
                    human[n] = h
                    predicted[n] = p
                    nearness[n] = 2 * tolerance - abs(h_start[h] - start) - end_error
                n += 1
            h += 1
    return n


@jit
def rows_of(n, owner, row, of_pair):  # type: ignore[no-untyped-def]
    """Puts pairs that stand by owner into rows, one for each owner that has any; returns how many rows there are."""
    rows = 0
    row[0] = 0
    for s in range(n):
        rows += s > 0 and owner[s] != owner[s - 1]
        of_pair[s] = rows
        row[rows + 1] = s + 1
    return rows + (n > 0)


@jit
def ahead(a, b, value, whole, later_first):  # type: ignore[no-untyped-def]
    """Whether pair `a` is taken before pair `b`: the greater value (of `whole`, if given), then the order."""
    if len(whole) > 0:
        if greater(value[a], whole[a], value[b], whole[b]):
            return True
        if greater(value[b], whole[b], value[a], whole[a]):
            return False
    elif value[a] != value[b]:
        return value[a] > value[b]
    return (a < b) != later_first


@jit
def greedy(rows, row, n, of_row, column, columns, value, later_first, taken, keys):  # type: ignore[no-untyped-def]
    """One-to-one, greatest value (>= 0) first; ties: the first pair of the list (or the last one).

    `of_row` and `column` are the two ends of each pair. Writes into `taken` the pair that each column is matched by,
    or -1. `keys` is room for `n` items.
    """
    top = 0
    for s in range(n):
        top = max(top, value[s])
    widest = 0
    if columns > WIDEST_ROW:
        for r in range(rows):
            widest = max(widest, row[r + 1] - row[r])
    if widest > WIDEST_ROW or n > 1 << PAIR_BITS or top >= 1 << (62 - PAIR_BITS):
        greedy_by_sorting(rows, n, of_row, column, columns, value, value[:0], later_first, taken, keys)
        return
    for c in range(columns):
        taken[c] = 0
    pair_mask = (1 << PAIR_BITS) - 1
    flip = 0 if later_first else pair_mask
    for s in range(n):
        keys[s] = ((value[s] + 1) << PAIR_BITS) | (s ^ flip)
    # Rows propose: each takes the best column that no better pair holds; who is displaced proposes again. As all
    # prefer by one strict order, this ends in the greedy matching.
    for r in range(rows):
        proposer = r
        while proposer >= 0:
            best = 0
            for s in range(row[proposer], row[proposer + 1]):
                best = max(best, keys[s] if keys[s] > taken[column[s]] else 0)
            proposer = -1
            if best > 0:
                wanted = column[(best & pair_mask) ^ flip]
                rival = taken[wanted]
                taken[wanted] = best
                if rival > 0:
                    proposer = of_row[(rival & pair_mask) ^ flip]
    for c in range(columns):
        taken[c] = (taken[c] & pair_mask) ^ flip if taken[c] > 0 else -1


@jit
def greedy_by_sorting(rows, n, of_row, column, columns, value, whole, later_first, taken, order):  # type: ignore[no-untyped-def]
    """The same for any values and widths: a heap sort of all pairs, then the best first."""
    for s in range(n):
        order[s] = s
    half = n // 2
    for step in range(half + n - 1):
        if step < half:  # building the heap, whose root is the last to be taken
            node = half - 1 - step
            size = n
        else:
            node = 0
            size = n - 1 - (step - half)
            order[0], order[size] = order[size], order[0]
        while 2 * node + 1 < size:
            child = 2 * node + 1
            if child + 1 < size and ahead(order[child], order[child + 1], value, whole, later_first):
                child += 1
            if not ahead(order[node], order[child], value, whole, later_first):
                break
            order[node], order[child] = order[child], order[node]
            node = child
    row_taken = room(rows)
    for r in range(rows):
        row_taken[r] = 0
    for c in range(columns):
        taken[c] = -1
    for k in range(n):
        s = order[k]
        if row_taken[of_row[s]] == 0 and taken[column[s]] < 0:
            row_taken[of_row[s]] = 1
            taken[column[s]] = s


@jit
def only_stars(n, human, predicted, human_degree, predicted_degree):  # type: ignore[no-untyped-def]
    """Whether every pair has an end that is in no other pair: then each star simply takes its best pair."""
    for s in range(n):
        human_degree[human[s]] = 0
        predicted_degree[predicted[s]] = 0
    for s in range(n):
        human_degree[human[s]] += 1
        predicted_degree[predicted[s]] += 1
    for s in range(n):  # noqa: SIM110 (numba compiles no generators)
        if human_degree[human[s]] > 1 and predicted_degree[predicted[s]] > 1:
            return False
    return True


@jit
def at_least(limit, n, overlap, union, hits):  # type: ignore[no-untyped-def]
    """The pairs whose IoU is at least `limit`; returns how many."""
    count = 0
    for s in range(n):
        hits[count] = s
        count += overlap[s] >= limit * union[s]
    return count


@jit
def best_iou_in_order(n, hits, human, predicted, overlap, union, first, p_at, h_at, matched):  # type: ignore[no-untyped-def]
    """Humans in order take the unused prediction of greatest IoU among the `n` hits; ties: the earlier.

    Writes the matches; returns their number.
    """
    count = 0
    k = 0
    while k < n:
        h = human[hits[k]]
        best = -1
        while k < n and human[hits[k]] == h:
            s = hits[k]
            if matched[first + p_at[predicted[s]]] < 0 and (
                best < 0 or greater(overlap[s], union[s], overlap[best], union[best])
            ):
                best = s
            k += 1
        if best >= 0:
            matched[first + p_at[predicted[best]]] = h_at[h]
            count += 1
    return count


@jit
def snapped_hits(  # type: ignore[no-untyped-def]
    ny, nx, h_start, h_end, p_start, p_end, limit, n, human, predicted, overlap, union,
    hit_human, hit_predicted, hit_overlap, hit_union, among,
):  # fmt: skip
    """Pairs with IoU >= `limit` after snapping the outer ends of the predictions to those of the humans.

    The first prediction takes the first human start, the prediction that ends last (the first such) takes the last
    human end. Only those two change; all others come from the `n` overlapping pairs. Fills the last four arrays (room
    for `n + 2 * ny`; `among` has room for `n`) and returns how many hits there are: those of each prediction in the
    order of the humans.
    """
    last = 0
    for p in range(1, nx):
        if p_end[p] > p_end[last]:
            last = p
    last_end = h_end[0]
    for h in range(1, ny):
        last_end = max(last_end, h_end[h])
    hits = 0
    for p in range(0, last + 1, max(last, 1)):  # the first and the last, once where they are one
        start = h_start[0] if p == 0 else p_start[p]
        end = last_end if p == last else p_end[p]
        if end <= start:
            continue
        for h in range(ny):
            if h_start[h] >= end:
                break
            if h_end[h] > start:
                shared = min(h_end[h], end) - max(h_start[h], start)
                whole = (h_end[h] - h_start[h]) + (end - start) - shared
                hit_human[hits] = h
                hit_predicted[hits] = p
                hit_overlap[hits] = shared
                hit_union[hits] = whole
                hits += shared >= limit * whole
    for k in range(at_least(limit, n, overlap, union, among)):
        s = among[k]
        p = predicted[s]
        hit_human[hits] = human[s]
        hit_predicted[hits] = p
        hit_overlap[hits] = overlap[s]
        hit_union[hits] = union[s]
        hits += (p != 0) & (p != last)
    return hits


@jit
def best_of_each_star(n, human, predicted, overlap, union, ny, nx, taken, best_of_human):  # type: ignore[no-untyped-def]
    """For pairs that are stars (see `only_stars`): each star's pair of greatest IoU.

    Ties: the earlier human, then the earlier prediction.
    """
    for h in range(ny):
        best_of_human[h] = -1
    for p in range(nx):
        taken[p] = -1
    for s in range(n):
        h = human[s]
        p = predicted[s]
        if best_of_human[h] >= 0:  # a star around a human
            rival = best_of_human[h]
            if greater(overlap[rival], union[rival], overlap[s], union[s]):
                continue
            if p > predicted[rival] and not greater(overlap[s], union[s], overlap[rival], union[rival]):
                continue
            taken[predicted[rival]] = -1
        elif taken[p] >= 0:  # a star around a prediction
            rival = taken[p]
            if not greater(overlap[s], union[s], overlap[rival], union[rival]):
                continue
        best_of_human[h] = s
        taken[p] = s


@jit
def write_matches(n, ends, taken, human, predicted, first, p_at, h_at, matched):  # type: ignore[no-untyped-def]
    """Writes those of `n` pairs that are taken at their end; returns their number."""
    count = 0
    for s in range(n):
        if taken[ends[s]] == s:
            matched[first + p_at[predicted[s]]] = h_at[human[s]]
            count += 1
    return count


@jit
def match_timelines(  # type: ignore[no-untyped-def]
    first, last, clip, h_offset, h_start_s, h_end_s, h_scored, p_offset, p_start_s, p_end_s, p_scored,
    units_per_s, tolerance, temporal_limit, seg_limit, any_limit, later_first,
    pa, boundary, temporal, seg, any_iou, counts, boundary_open, seg_open,
):  # fmt: skip
    """Matches timelines first..last; a metric whose output array is empty is left out.

    `pa`, `boundary`, `temporal`, `seg`, `any_iou`: per predicted segment the human one of the clip that it matches,
    from 0; left as it is (-1) where none. `counts`: how many matches a timeline has of each of the five, in this order.
    `boundary_open` and `seg_open`, per timeline: 1 where pairs compete on both sides; there the greedy boundary
    matching need not be the optimal one, and `seg` is left to :mod:`mabpl.matching`.
    """
    widest = 1
    for t in range(first, last):
        widest = max(widest, h_offset[clip[t] + 1] - h_offset[clip[t]], p_offset[t + 1] - p_offset[t])
    h_start, h_end, h_start_unit, h_end_unit, h_at = rooms(widest)
    p_start, p_end, p_start_unit, p_end_unit, p_at = rooms(widest)
    row, by_human, taken = room(widest + 1), room(widest), room(widest)
    capacity = 4 * widest
    human, predicted, overlap, union, keys = rooms(capacity)
    hit_human, hit_predicted, hit_overlap, hit_union, among = rooms(capacity)
    for t in range(first, last):
        h0, h1, p0, p1 = h_offset[clip[t]], h_offset[clip[t] + 1], p_offset[t], p_offset[t + 1]
        ny = scored_segments(
            h0, h1, h_start_s, h_end_s, h_scored, units_per_s, h_start, h_end, h_start_unit, h_end_unit, h_at
        )
        nx = scored_segments(
            p0, p1, p_start_s, p_end_s, p_scored, units_per_s, p_start, p_end, p_start_unit, p_end_unit, p_at
        )
        if ny == 0 or nx == 0:
            continue
        if len(boundary) > 0:
            ends = (ny, nx, h_start_unit, h_end_unit, p_start_unit, p_end_unit)
            n = boundary_pairs(*ends, tolerance, human, predicted, overlap)
            if n > capacity:
                capacity = 2 * n
                human, predicted, overlap, union, keys = rooms(capacity)
                boundary_pairs(*ends, tolerance, human, predicted, overlap)
            rows = rows_of(n, predicted, row, union)
            greedy(rows, row, n, union, human, ny, overlap, False, by_human, keys)
            counts[1, t] = write_matches(n, human, by_human, human, predicted, p0, p_at, h_at, boundary)
            if n > rows and not only_stars(n, human, predicted, by_human, taken):
                boundary_open[t] = 1
        if len(pa) == 0 and len(temporal) == 0 and len(seg) == 0 and len(any_iou) == 0:
            continue
        ends = (ny, nx, h_start, h_end, p_start, p_end)
        n = overlapping_pairs(*ends, row, human, predicted, overlap, union)
        if n > capacity:
            capacity = 2 * n
            human, predicted, overlap, union, keys = rooms(capacity)
            overlapping_pairs(*ends, row, human, predicted, overlap, union)
        if len(hit_human) < n + 2 * ny:  # snapping can add two hits a human
            hit_human, hit_predicted, hit_overlap, hit_union, among = rooms(n + 2 * ny)
        if len(pa) > 0:
            greedy(ny, row, n, human, predicted, nx, overlap, later_first, taken, keys)
            counts[0, t] = write_matches(n, predicted, taken, human, predicted, p0, p_at, h_at, pa)
        if len(temporal) > 0:
            hits = at_least(temporal_limit, n, overlap, union, among)
            counts[2, t] = best_iou_in_order(hits, among, human, predicted, overlap, union, p0, p_at, h_at, temporal)
        if len(any_iou) > 0:
            hits = at_least(any_limit, n, overlap, union, among)
            for k in range(hits):
                s = among[k]
                hit_human[k], hit_predicted[k] = human[s], predicted[s]
                hit_overlap[k], hit_union[k] = overlap[s], union[s]
            greedy_by_sorting(ny, hits, hit_human, hit_predicted, nx, hit_overlap, hit_union, False, taken, keys)
            counts[4, t] = write_matches(hits, hit_predicted, taken, hit_human, hit_predicted, p0, p_at, h_at, any_iou)
        if len(seg) > 0:
            hits = snapped_hits(
                *ends, seg_limit, n, human, predicted, overlap, union,
                hit_human, hit_predicted, hit_overlap, hit_union, among,
            )  # fmt: skip
            if only_stars(hits, hit_human, hit_predicted, by_human, taken):
                best_of_each_star(hits, hit_human, hit_predicted, hit_overlap, hit_union, ny, nx, taken, by_human)
                counts[3, t] = write_matches(hits, hit_predicted, taken, hit_human, hit_predicted, p0, p_at, h_at, seg)
            else:
                seg_open[t] = 1


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


@jit
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
