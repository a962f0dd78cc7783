"""Matches the segments of timelines.

Everything that is compared is an integer: microseconds for overlaps, and for boundaries the unit of the time base
(1/30 s, or nanoseconds).

A timeline's segments come in the order (start, end, position). Index -1 means "no match". The definitions are those of
:mod:`mabpl.reference`, which says the same without speed. Where a loop could branch on the data it adds a comparison
instead: a branch that cannot be foreseen costs as much as ten sums.

Pairs stand in rows: the pairs of row r are those from row[r] to row[r + 1].
"""

from typing import Any

import numpy as np

if "jit" in globals():  # the engine puts numba's decorator here before it loads the file
    index: Any = np.uint64  # of an unsigned index numba does not ask whether it counts from the end
    whole: Any = np.int64
else:
    index = int
    whole = int

    def jit(function):  # type: ignore[no-untyped-def]
        return function


ZERO = index(0)
ONE = index(1)
FAR = (1 << 63) - 1  # beyond all times
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
    """Starts and ends, in microseconds and in units, of those of first..last that are scored, and which they are.

    Returns their number; `at` counts from `first`. After the last start in units stands `FAR`.
    """
    n = ZERO
    for i in range(first, last):
        start[n] = round(start_s[i] * 1e6)
        end[n] = round(end_s[i] * 1e6)
        start_unit[n] = round(start_s[i] * units_per_s)
        end_unit[n] = round(end_s[i] * units_per_s)
        at[n] = i - first
        n += index(scored[i])
    start_unit[n] = FAR
    return n


@jit
def are_disjoint(n, start, end):  # type: ignore[no-untyped-def]
    overlaps = 0
    for i in range(ONE, n):
        overlaps += end[i - ONE] > start[i]
    return overlaps == 0


@jit
def overlapping_pairs(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union, room_1, room_2):  # type: ignore[no-untyped-def]
    """Overlapping pairs of `ny` human and `nx` predicted segments, a row a human, in order of the predictions.

    Fills `row` and the four arrays after it, and returns how many pairs there are: too many for these arrays (of at
    least `nx + ny` items) if they do not hold them. The last two are room for as many items.
    """
    if not are_disjoint(ny, h_start, h_end) or not are_disjoint(nx, p_start, p_end):
        return _sweep(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union, room_1, room_2)
    n, h, p = ZERO, ZERO, ZERO
    row[0] = ZERO
    while h < ny and p < nx:  # whoever ends first meets nobody else
        h_first, h_last, p_first, p_last = h_start[h], h_end[h], p_start[p], p_end[p]
        human[n] = h
        predicted[n] = p
        shared = min(h_last, p_last) - max(h_first, p_first)
        overlap[n] = shared
        union[n] = (h_last - h_first) + (p_last - p_first) - shared
        n += index(shared > 0)
        row[h + ONE] = n
        h += index(h_last <= p_last)
        p += index(p_last <= h_last)
    for rest in range(h, ny):
        row[rest + ONE] = n
    return n


@jit
def _sweep(ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union, met_human, met_predicted):  # type: ignore[no-untyped-def]
    """The same where segments of a side overlap each other: a sweep over all starts.

    Whoever starts meets those of the other side that have not ended. Each pair is met once and each segment leaves
    once, so the work is the number of segments plus the number of pairs.
    """
    capacity = index(len(human))
    n = ZERO
    # Who has not ended yet, human and predicted: until the end nobody needs the arrays of pairs.
    open_humans, open_predicted = human, predicted
    n_open_humans = ZERO
    n_open_predicted = ZERO
    for h in range(ny + ONE):
        row[h] = ZERO
    i = ZERO
    j = ZERO
    while i < ny or j < nx:
        if n + n_open_predicted + n_open_humans > capacity:
            return capacity + ONE
        kept = ZERO
        if j == nx or (i < ny and h_start[i] <= p_start[j]):
            for s in range(n_open_predicted):
                p = open_predicted[s]
                if p_end[p] > h_start[i]:
                    open_predicted[kept] = p
                    kept += ONE
                    met_human[n] = i
                    met_predicted[n] = p
                    row[i + ONE] += ONE
                    n += ONE
            n_open_predicted = kept
            open_humans[n_open_humans] = i
            n_open_humans += ONE
            i += ONE
        else:
            for s in range(n_open_humans):
                h = open_humans[s]
                if h_end[h] > p_start[j]:
                    open_humans[kept] = h
                    kept += ONE
                    met_human[n] = h
                    met_predicted[n] = j
                    row[h + ONE] += ONE
                    n += ONE
            n_open_humans = kept
            open_predicted[n_open_predicted] = j
            n_open_predicted += ONE
            j += ONE
    # Each human met its predictions in ascending order, so a stable counting sort by human orders the pairs.
    for h in range(ny):
        row[h + ONE] += row[h]
    for back in range(ONE, n + ONE):
        h = met_human[n - back]
        p = met_predicted[n - back]
        row[h + ONE] -= ONE
        at = row[h + ONE]
        human[at] = h
        predicted[at] = p
        overlap[at] = min(h_end[h], p_end[p]) - max(h_start[h], p_start[p])
        union[at] = (h_end[h] - h_start[h]) + (p_end[p] - p_start[p]) - overlap[at]
    for h in range(ny):
        row[h] = row[h + ONE]
    row[ny] = n
    return n


@jit
def boundary_pairs(ny, nx, h_start, h_end, p_start, p_end, tolerance, human, predicted, nearness):  # type: ignore[no-untyped-def]
    """Pairs with both ends within `tolerance`, by prediction; `nearness` is twice the tolerance less the total error.

    After the last human start stands `FAR`. Fills the last three arrays, of one item more than there are pairs, and
    returns how many pairs there are, even if it is more.
    """
    n, p, low = ZERO, ZERO, ZERO
    end = index(len(human)) - ONE
    while p < nx and low < ny:  # `low` is the first human that can be near `p`, or passed on the way to it
        start_error = abs(p_start[p] - h_start[low])
        end_error = abs(p_end[p] - h_end[low])
        is_passed = h_start[low] < p_start[p] - tolerance
        at = min(n, end)
        human[at] = low
        predicted[at] = p
        nearness[at] = 2 * tolerance - start_error - end_error
        n += index((start_error <= tolerance) & (end_error <= tolerance))
        if (h_start[low + ONE] <= p_start[p] + tolerance) & (not is_passed):
            h = low + ONE
            while h_start[h] <= p_start[p] + tolerance:
                end_error = abs(p_end[p] - h_end[h])
                if end_error <= tolerance:
                    at = min(n, end)
                    human[at] = h
                    predicted[at] = p
                    nearness[at] = 2 * tolerance - abs(p_start[p] - h_start[h]) - end_error
                    n += ONE
                h += ONE
        low += index(is_passed)
        p += index(not is_passed)
    return n


@jit
def match_nothing(matched, first, last):  # type: ignore[no-untyped-def]
    if len(matched) > 0:
        for i in range(first, last):
            matched[i] = -1


@jit
def are_apart(n, human, predicted):  # type: ignore[no-untyped-def]
    """Whether the pairs ascend on both sides: then no two of them share a segment."""
    shared = 0
    for s in range(ONE, n):
        shared += (human[s - ONE] >= human[s]) | (predicted[s - ONE] >= predicted[s])
    return shared == 0


@jit
def write_all(n, human, predicted, first, p_at, h_at, matched):  # type: ignore[no-untyped-def]
    """Writes all pairs as matches; returns their number."""
    for s in range(n):
        matched[first + p_at[predicted[s]]] = h_at[human[s]]
    return n


@jit
def rows_of(n, owner, row, of_pair):  # type: ignore[no-untyped-def]
    """Puts `n` > 0 pairs that stand by owner into rows, one for each that has any; returns how many rows there are."""
    rows = ZERO
    row[0] = ZERO
    of_pair[0] = ZERO
    for s in range(ONE, n):
        if owner[s] != owner[s - ONE]:
            rows += ONE
            row[rows] = s
        of_pair[s] = rows
    row[rows + ONE] = n
    return rows + ONE


@jit
def ahead(a, b, value, union, later_first):  # type: ignore[no-untyped-def]
    """Whether pair `a` is taken before pair `b`: the greater value (of `union`, if given), then the order."""
    if len(union) > 0:
        if greater(value[a], union[a], value[b], union[b]):
            return True
        if greater(value[b], union[b], value[a], union[a]):
            return False
    elif value[a] != value[b]:
        return value[a] > value[b]
    return (a < b) != later_first


@jit
def greedy(rows, row, n, of_row, column, columns, value, later_first, taken, keys, order, row_taken):  # type: ignore[no-untyped-def]
    """One-to-one, greatest value (>= 0) first; ties: the first pair of the list (or the last one).

    `of_row` and `column` are the two ends of each pair. Writes into `taken` the pair that each column is matched by,
    or -1. The last three are room: `keys` and `order` for `n` items, `row_taken` for `rows`.
    """
    top = 0
    for s in range(n):
        top = max(top, value[s])
    widest = ZERO
    if columns > WIDEST_ROW:
        for r in range(rows):
            widest = max(widest, row[r + ONE] - row[r])
    if widest > WIDEST_ROW or n > 1 << PAIR_BITS or top >= 1 << (62 - PAIR_BITS):
        greedy_by_sorting(rows, n, of_row, column, columns, value, value[:0], later_first, taken, order, row_taken)
        return
    for c in range(columns):
        taken[c] = 0
    pair_mask = (1 << PAIR_BITS) - 1
    flip = 0 if later_first else pair_mask
    for s in range(n):
        keys[s] = ((value[s] + 1) << PAIR_BITS) | (whole(s) ^ flip)
    # Rows propose: each takes the best column that no better pair holds; who is displaced proposes again. As all
    # prefer by one strict order, this ends in the greedy matching.
    for r in range(rows):
        proposer = r
        proposes = True
        while proposes:
            best = 0
            for s in range(row[proposer], row[proposer + ONE]):
                best = max(best, keys[s] if keys[s] > taken[column[s]] else 0)
            proposes = False
            if best > 0:
                wanted = column[index((best & pair_mask) ^ flip)]
                rival = taken[wanted]
                taken[wanted] = best
                if rival > 0:
                    proposer = of_row[index((rival & pair_mask) ^ flip)]
                    proposes = True
    for c in range(columns):
        taken[c] = (taken[c] & pair_mask) ^ flip if taken[c] > 0 else -1


@jit
def greedy_by_sorting(rows, n, of_row, column, columns, value, union, later_first, taken, order, row_taken):  # type: ignore[no-untyped-def]
    """The same for any values and widths: a heap sort of all pairs, then the best first."""
    for s in range(n):
        order[s] = s
    half = n // index(2)
    for step in range(half + n - ONE if n > 0 else ZERO):
        if step < half:  # building the heap, whose root is the last to be taken
            node = half - ONE - step
            size = n
        else:
            node = ZERO
            size = n - ONE - (step - half)
            order[0], order[size] = order[size], order[0]
        while node + node + ONE < size:
            child = node + node + ONE
            if child + ONE < size and ahead(order[child], order[child + ONE], value, union, later_first):
                child += ONE
            if not ahead(order[node], order[child], value, union, later_first):
                break
            order[node], order[child] = order[child], order[node]
            node = child
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
    count = ZERO
    for s in range(n):
        hits[count] = s
        count += index(overlap[s] >= limit * union[s])
    return count


@jit
def copy_pairs(n, at, human, predicted, overlap, union, hit_human, hit_predicted, hit_overlap, hit_union):  # type: ignore[no-untyped-def]
    for k in range(n):
        s = at[k]
        hit_human[k] = human[s]
        hit_predicted[k] = predicted[s]
        hit_overlap[k] = overlap[s]
        hit_union[k] = union[s]


@jit
def best_iou_in_order(n, human, predicted, overlap, union, first, p_at, h_at, matched):  # type: ignore[no-untyped-def]
    """Humans in order take the unused prediction of greatest IoU among the `n` pairs; ties: the earlier.

    Writes the matches; returns their number.
    """
    count = ZERO
    k = ZERO
    while k < n:
        h = human[k]
        best = n
        while k < n and human[k] == h:
            if matched[first + p_at[predicted[k]]] < 0 and (
                best == n or greater(overlap[k], union[k], overlap[best], union[best])
            ):
                best = k
            k += ONE
        if best < n:
            matched[first + p_at[predicted[best]]] = h_at[h]
            count += ONE
    return count


@jit
def hits_of(p, start, end, ny, h_start, h_end, limit, hits, hit_human, hit_predicted, hit_overlap, hit_union):  # type: ignore[no-untyped-def]
    """Adds to `hits` pairs those of prediction `p`, from `start` to `end`; returns how many there are then."""
    if end <= start:
        return hits
    for h in range(ny):
        if h_start[h] >= end:
            break
        if h_end[h] > start:
            shared = min(h_end[h], end) - max(h_start[h], start)
            union = (h_end[h] - h_start[h]) + (end - start) - shared
            hit_human[hits] = h
            hit_predicted[hits] = p
            hit_overlap[hits] = shared
            hit_union[hits] = union
            hits += index(shared >= limit * union)
    return hits


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
    last = ZERO
    for p in range(ONE, nx):
        if p_end[p] > p_end[last]:
            last = p
    last_end = h_end[0]
    for h in range(ONE, ny):
        last_end = max(last_end, h_end[h])
    found = (hit_human, hit_predicted, hit_overlap, hit_union)
    first_end = p_end[0] if last > ZERO else last_end
    hits = hits_of(ZERO, h_start[0], first_end, ny, h_start, h_end, limit, ZERO, *found)
    for k in range(at_least(limit, n, overlap, union, among)):
        s = among[k]
        hit_human[hits] = human[s]
        hit_predicted[hits] = predicted[s]
        hit_overlap[hits] = overlap[s]
        hit_union[hits] = union[s]
        hits += index((predicted[s] != ZERO) & (predicted[s] != last))
    if last > ZERO:
        hits = hits_of(last, p_start[last], last_end, ny, h_start, h_end, limit, hits, *found)
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
    count = ZERO
    for s in range(n):
        if taken[ends[s]] == whole(s):
            matched[first + p_at[predicted[s]]] = h_at[human[s]]
            count += ONE
    return count


@jit
def match_timelines(  # type: ignore[no-untyped-def]
    first, last, clip, h_offset, h_start_s, h_end_s, h_scored, p_offset, p_start_s, p_end_s, p_scored,
    units_per_s, tolerance, temporal_limit, seg_limit, any_limit, later_first,
    pa, boundary, temporal, seg, any_iou, counts, boundary_open, seg_open,
    times, places, ends_of_pairs, values_of_pairs,
):  # fmt: skip
    """Matches timelines first..last; a metric whose output array is empty is left out.

    `pa`, `boundary`, `temporal`, `seg`, `any_iou`: per predicted segment the human one of the clip that it matches,
    from 0; -1 where none. `counts`: how many matches a timeline has of each of the five, in this order.
    `boundary_open` and `seg_open`, per timeline: 1 where pairs compete on both sides; there the greedy boundary
    matching need not be the optimal one, and `seg` is left to :mod:`mabpl.matching`.

    The last four are room: `times` (11 rows) and `places` (3 rows) two more than the segments of a side, the others
    (5 rows each) for pairs. Returns `last`, or the timeline whose pairs want more room.
    """
    h_start, h_end, h_start_unit, h_end_unit = times[0], times[1], times[2], times[3]
    p_start, p_end, p_start_unit, p_end_unit = times[4], times[5], times[6], times[7]
    taken, by_human, row_taken = times[8], times[9], times[10]
    h_at, p_at, row = places[0], places[1], places[2]
    human, predicted, hit_human, hit_predicted, among = (
        ends_of_pairs[0], ends_of_pairs[1], ends_of_pairs[2], ends_of_pairs[3], ends_of_pairs[4],
    )  # fmt: skip
    overlap, union, hit_overlap, hit_union, keys = (
        values_of_pairs[0], values_of_pairs[1], values_of_pairs[2], values_of_pairs[3], values_of_pairs[4],
    )  # fmt: skip
    capacity = index(len(keys))
    for t in range(index(first), index(last)):
        c = index(clip[t])
        p0, p1 = index(p_offset[t]), index(p_offset[t + ONE])
        match_nothing(pa, p0, p1)
        match_nothing(boundary, p0, p1)
        match_nothing(temporal, p0, p1)
        match_nothing(seg, p0, p1)
        match_nothing(any_iou, p0, p1)
        ny = scored_segments(
            index(h_offset[c]), index(h_offset[c + ONE]), h_start_s, h_end_s, h_scored, units_per_s,
            h_start, h_end, h_start_unit, h_end_unit, h_at,
        )  # fmt: skip
        nx = scored_segments(
            p0, p1, p_start_s, p_end_s, p_scored, units_per_s,
            p_start, p_end, p_start_unit, p_end_unit, p_at,
        )  # fmt: skip
        if ny == 0 or nx == 0:
            continue
        if len(boundary) > 0:
            n = boundary_pairs(
                ny, nx, h_start_unit, h_end_unit, p_start_unit, p_end_unit, tolerance, human, predicted, overlap
            )
            if n >= capacity:
                return t
            if are_apart(n, human, predicted):
                counts[1, t] = write_all(n, human, predicted, p0, p_at, h_at, boundary)
            else:
                rows = rows_of(n, predicted, row, among)
                greedy(rows, row, n, among, human, ny, overlap, False, by_human, keys, hit_human, row_taken)
                counts[1, t] = write_matches(n, human, by_human, human, predicted, p0, p_at, h_at, boundary)
                if n > rows and not only_stars(n, human, predicted, by_human, taken):
                    boundary_open[t] = 1
        if len(pa) == 0 and len(temporal) == 0 and len(seg) == 0 and len(any_iou) == 0:
            continue
        n = overlapping_pairs(
            ny, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap, union, hit_human, hit_predicted
        )
        if n + ny + ny > capacity:  # snapping can add two hits a human
            return t
        if len(pa) > 0:
            greedy(ny, row, n, human, predicted, nx, overlap, later_first, taken, keys, among, row_taken)
            counts[0, t] = write_matches(n, predicted, taken, human, predicted, p0, p_at, h_at, pa)
        if len(temporal) > 0:
            hits = at_least(temporal_limit, n, overlap, union, among)
            copy_pairs(hits, among, human, predicted, overlap, union, hit_human, hit_predicted, hit_overlap, hit_union)
            if are_apart(hits, hit_human, hit_predicted):
                counts[2, t] = write_all(hits, hit_human, hit_predicted, p0, p_at, h_at, temporal)
            else:
                counts[2, t] = best_iou_in_order(
                    hits, hit_human, hit_predicted, hit_overlap, hit_union, p0, p_at, h_at, temporal
                )
        if len(any_iou) > 0:
            hits = at_least(any_limit, n, overlap, union, among)
            copy_pairs(hits, among, human, predicted, overlap, union, hit_human, hit_predicted, hit_overlap, hit_union)
            greedy_by_sorting(
                ny, hits, hit_human, hit_predicted, nx, hit_overlap, hit_union, False, taken, among, row_taken
            )
            counts[4, t] = write_matches(hits, hit_predicted, taken, hit_human, hit_predicted, p0, p_at, h_at, any_iou)
        if len(seg) > 0:
            hits = snapped_hits(
                ny, nx, h_start, h_end, p_start, p_end, seg_limit, n, human, predicted, overlap, union,
                hit_human, hit_predicted, hit_overlap, hit_union, among,
            )  # fmt: skip
            if are_apart(hits, hit_human, hit_predicted):
                counts[3, t] = write_all(hits, hit_human, hit_predicted, p0, p_at, h_at, seg)
            elif only_stars(hits, hit_human, hit_predicted, by_human, taken):
                best_of_each_star(hits, hit_human, hit_predicted, hit_overlap, hit_union, ny, nx, taken, by_human)
                counts[3, t] = write_matches(hits, hit_predicted, taken, hit_human, hit_predicted, p0, p_at, h_at, seg)
            else:
                seg_open[t] = 1
    return index(last)


@jit
def match_rows(  # type: ignore[no-untyped-def]
    first, last, ranks, clip, h_offset, h_position, p_offset, p_position, start, timeline, family, predicted, human
):  # fmt: skip
    """The matches of timelines first..last as rows, family by family, in the order of the predictions.

    `ranks`: an array a family, as `match_timelines` fills them. Timeline t's rows begin at start[t] of the last four
    arrays, which take positions in the file. Returns how many predictions follow one of a later position.
    """
    falls = 0
    for t in range(index(first), index(last)):
        at = index(start[t])
        h0 = h_offset[clip[t]]
        for code in range(len(ranks)):
            rank = ranks[code]
            before = -1
            for i in range(index(p_offset[t]), index(p_offset[t + ONE])):
                if rank[i] >= 0:
                    timeline[at] = t
                    family[at] = code
                    predicted[at] = p_position[i]
                    human[at] = h_position[index(h0 + rank[i])]
                    falls += p_position[i] < before
                    before = p_position[i]
                    at += ONE
    return falls
