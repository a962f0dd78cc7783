"""The matching kernels: plain loops over sorted arrays with offsets.

One file, loaded in two ways (see :mod:`mabpl.engine`): as it stands, which is fastest for small jobs, and compiled by
numba, which is fastest for large ones. No tables, no files, no names of columns. Everything that is compared is an
integer: microseconds for overlaps, and for boundaries the unit of the time base (1/30 s, or nanoseconds).

A timeline's segments come in the order (start, end, position). Index -1 means "no match". The definitions are those of
:mod:`mabpl.reference`, which says the same without speed.

Pairs stand in rows: the pairs of row r are those from row[r] to row[r + 1].
"""

import numpy as np

jit = globals().get("jit", lambda function: function)  # the engine puts numba's decorator here before it loads the file

WIDEST_ROW = 64  # up to this many pairs a row, proposing is faster than sorting


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
def overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, row, human, predicted, overlap):  # type: ignore[no-untyped-def]
    """Overlapping pairs of humans h0..h1 and predictions p0..p1, as ranks from 0, a row a human.

    Fills `row`, and the last three arrays as far as they reach; returns how many pairs there are.
    """
    for p in range(p0 + 1, p1):
        if p_end[p] < p_end[p - 1]:
            return _sweep(h0, h1, p0, p1, h_start, h_end, p_start, p_end, row, human, predicted, overlap)
    # Starts and ends of the predictions ascend: those that overlap a human segment are neighbours.
    n = 0
    room = len(human)
    low = p0
    for h in range(h0, h1):
        row[h - h0] = n
        start = h_start[h]
        end = h_end[h]
        while low < p1 and p_end[low] <= start:
            low += 1
        p = low
        while p < p1 and p_start[p] < end:
            if n < room:
                human[n] = h - h0
                predicted[n] = p - p0
                overlap[n] = min(end, p_end[p]) - max(start, p_start[p])
            n += 1
            p += 1
    row[h1 - h0] = n
    return n


@jit
def _sweep(h0, h1, p0, p1, h_start, h_end, p_start, p_end, row, human, predicted, overlap):  # type: ignore[no-untyped-def]
    """The same for nested predictions: a sweep over all starts.

    Whoever starts meets those of the other side that have not ended. Each pair is met once and each segment leaves
    once, so the work is the number of segments plus the number of pairs.
    """
    ny = h1 - h0
    nx = p1 - p0
    capacity = 2 * (nx + ny)
    met = np.empty((2, capacity), np.int64)
    n = 0
    open_humans = np.empty(ny, np.int64)
    open_predicted = np.empty(nx, np.int64)
    n_open_humans = 0
    n_open_predicted = 0
    for h in range(ny + 1):
        row[h] = 0
    i = 0
    j = 0
    while i < ny or j < nx:
        if n + n_open_predicted + n_open_humans > capacity:
            capacity = 2 * capacity + n_open_predicted + n_open_humans
            larger = np.empty((2, capacity), np.int64)
            larger[:, :n] = met[:, :n]
            met = larger
        kept = 0
        if j == nx or (i < ny and h_start[h0 + i] <= p_start[p0 + j]):
            for s in range(n_open_predicted):
                p = open_predicted[s]
                if p_end[p0 + p] > h_start[h0 + i]:
                    open_predicted[kept] = p
                    kept += 1
                    met[0, n] = i
                    met[1, n] = p
                    row[i + 1] += 1
                    n += 1
            n_open_predicted = kept
            open_humans[n_open_humans] = i
            n_open_humans += 1
            i += 1
        else:
            for s in range(n_open_humans):
                h = open_humans[s]
                if h_end[h0 + h] > p_start[p0 + j]:
                    open_humans[kept] = h
                    kept += 1
                    met[0, n] = h
                    met[1, n] = j
                    row[h + 1] += 1
                    n += 1
            n_open_humans = kept
            open_predicted[n_open_predicted] = j
            n_open_predicted += 1
            j += 1
    # Each human met its predictions in ascending order, so a stable counting sort by human orders the pairs.
    for h in range(ny):
        row[h + 1] += row[h]
    room = len(human)
    for s in range(n - 1, -1, -1):
        h = met[0, s]
        p = met[1, s]
        row[h + 1] -= 1
        at = row[h + 1]
        if at < room:
            human[at] = h
            predicted[at] = p
            overlap[at] = min(h_end[h0 + h], p_end[p0 + p]) - max(h_start[h0 + h], p_start[p0 + p])
    for h in range(ny):
        row[h] = row[h + 1]
    row[ny] = n
    return n


@jit
def boundary_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, tolerance, row, human, predicted, nearness):  # type: ignore[no-untyped-def]
    """Pairs with both ends within `tolerance`, a row a prediction; `nearness` is minus their total error.

    Fills `row`, and the last three arrays as far as they reach; returns how many pairs there are.
    """
    n = 0
    room = len(human)
    low = h0
    for p in range(p0, p1):
        row[p - p0] = n
        start = p_start[p]
        end = p_end[p]
        while low < h1 and h_start[low] < start - tolerance:
            low += 1
        h = low
        while h < h1 and h_start[h] <= start + tolerance:
            end_error = abs(h_end[h] - end)
            if end_error <= tolerance:
                if n < room:
                    human[n] = h - h0
                    predicted[n] = p - p0
                    nearness[n] = -abs(h_start[h] - start) - end_error
                n += 1
            h += 1
    row[p1 - p0] = n
    return n


@jit
def ahead(a, b, value, whole, later_first):  # type: ignore[no-untyped-def]
    """Whether pair `a` is taken before pair `b`: the greater value (a share of `whole`, if given), then the order."""
    if len(whole) > 0:
        if greater(value[a], whole[a], value[b], whole[b]):
            return True
        if greater(value[b], whole[b], value[a], whole[a]):
            return False
    elif value[a] != value[b]:
        return value[a] > value[b]
    return (a < b) != later_first


@jit
def greedy(rows, row, n, of_row, column, columns, value, whole, later_first, taken, order):  # type: ignore[no-untyped-def]
    """One-to-one, greatest value first; ties: the first pair of the list (or the last one).

    `of_row` and `column` are the two ends of each pair. Writes into `taken` the pair that each column is matched by,
    or -1. `order` is room for `n` items.
    """
    for c in range(columns):
        taken[c] = -1
    widest = 0
    for r in range(rows):
        widest = max(widest, row[r + 1] - row[r])
    if widest > WIDEST_ROW:
        greedy_by_sorting(rows, n, of_row, column, value, whole, later_first, taken, order)
        return
    # Rows propose: each takes the best column that no better pair holds; who is displaced proposes again. As all
    # prefer by one strict order, this ends in the greedy matching.
    for r in range(rows):
        proposer = r
        while proposer >= 0:
            best = -1
            for s in range(row[proposer], row[proposer + 1]):
                if best < 0 or ahead(s, best, value, whole, later_first):
                    rival = taken[column[s]]
                    if rival < 0 or ahead(s, rival, value, whole, later_first):
                        best = s
            proposer = -1
            if best >= 0:
                rival = taken[column[best]]
                taken[column[best]] = best
                if rival >= 0:
                    proposer = of_row[rival]


@jit
def greedy_by_sorting(rows, n, of_row, column, value, whole, later_first, taken, order):  # type: ignore[no-untyped-def]
    """The same for any number of pairs a row: a heap sort of all pairs, then the best first."""
    row_taken = np.zeros(rows, np.int64)
    for s in range(n):
        order[s] = s
    for step in range(n // 2 + n - 1):
        if step < n // 2:  # building the heap, whose root is the last to be taken
            node = n // 2 - 1 - step
            size = n
        else:
            size = n - 1 - (step - n // 2)
            order[0], order[size] = order[size], order[0]
            node = 0
        while 2 * node + 1 < size:
            child = 2 * node + 1
            if child + 1 < size and ahead(order[child], order[child + 1], value, whole, later_first):
                child += 1
            if not ahead(order[node], order[child], value, whole, later_first):
                break
            order[node], order[child] = order[child], order[node]
            node = child
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
def union_of(h, p, h_start, h_end, p_start, p_end, overlap):  # type: ignore[no-untyped-def]
    return (h_end[h] - h_start[h]) + (p_end[p] - p_start[p]) - overlap


@jit
def best_iou_in_order(rows, row, predicted, overlap, union, limit, matched):  # type: ignore[no-untyped-def]
    """Humans in order take the unused prediction of greatest IoU, if that is at least `limit`; ties: the earlier.

    Returns the number of matches.
    """
    count = 0
    for h in range(rows):
        best = -1
        for s in range(row[h], row[h + 1]):
            if (
                overlap[s] >= limit * union[s]
                and matched[predicted[s]] < 0
                and (best < 0 or greater(overlap[s], union[s], overlap[best], union[best]))
            ):
                best = s
        if best >= 0:
            matched[predicted[best]] = h
            count += 1
    return count


@jit
def snapped_hits(  # type: ignore[no-untyped-def]
    h0, h1, p0, p1, h_start, h_end, p_start, p_end, limit, row, predicted, overlap, union,
    hit_human, hit_predicted, hit_overlap, hit_union,
):  # fmt: skip
    """Pairs with IoU >= `limit` after snapping the outer ends of the predictions to those of the humans.

    The first prediction takes the first human start, the prediction that ends last (the first such) takes the last
    human end. Only those two change; all others come from the overlapping pairs. Fills the last four arrays as far
    as they reach and returns how many hits there are; by human, the two snapped predictions first.
    """
    last = 0
    for p in range(1, p1 - p0):
        if p_end[p0 + p] > p_end[p0 + last]:
            last = p
    last_end = h_end[h0]
    for h in range(h0 + 1, h1):
        last_end = max(last_end, h_end[h])
    first_end = last_end if last == 0 else p_end[p0]
    room = len(hit_human)
    hits = 0
    for h in range(h1 - h0):
        for p in range(0, last + 1, max(last, 1)):  # the first and the last, once where they are one
            start = h_start[h0] if p == 0 else p_start[p0 + p]
            end = first_end if p == 0 else last_end
            shared = min(h_end[h0 + h], end) - max(h_start[h0 + h], start)
            if shared > 0 and end > start:
                whole = (h_end[h0 + h] - h_start[h0 + h]) + (end - start) - shared
                if shared >= limit * whole:
                    if hits < room:
                        hit_human[hits] = h
                        hit_predicted[hits] = p
                        hit_overlap[hits] = shared
                        hit_union[hits] = whole
                    hits += 1
        for s in range(row[h], row[h + 1]):
            p = predicted[s]
            if overlap[s] >= limit * union[s] and p != 0 and p != last:
                if hits < room:
                    hit_human[hits] = h
                    hit_predicted[hits] = p
                    hit_overlap[hits] = overlap[s]
                    hit_union[hits] = union[s]
                hits += 1
    return hits


@jit
def best_of_each_star(n, human, predicted, overlap, union, matched, best_of_human):  # type: ignore[no-untyped-def]
    """For pairs by human that are stars (see `only_stars`): each star's pair of greatest IoU.

    Ties: the earlier human, then the earlier prediction. Returns the number of matches.
    """
    count = 0
    for s in range(n):
        best_of_human[human[s]] = -1
    for s in range(n):
        h = human[s]
        p = predicted[s]
        if best_of_human[h] >= 0:  # a star around a human
            rival = best_of_human[h]
            if greater(overlap[rival], union[rival], overlap[s], union[s]):
                continue
            if p > predicted[rival] and not greater(overlap[s], union[s], overlap[rival], union[rival]):
                continue
            matched[predicted[rival]] = -1
        elif matched[p] >= 0:  # a star around a prediction
            rival = best_of_human[matched[p]]
            if not greater(overlap[s], union[s], overlap[rival], union[rival]):
                continue
        else:
            count += 1
        best_of_human[h] = s
        matched[p] = h
    return count


@jit
def at_least(limit, rows, row, predicted, overlap, union, hit_row, hit_human, hit_predicted, hit_overlap, hit_union):  # type: ignore[no-untyped-def]
    """The pairs, a row a human, whose IoU is at least `limit`, into the last five arrays; returns how many."""
    hits = 0
    for h in range(rows):
        hit_row[h] = hits
        for s in range(row[h], row[h + 1]):
            if overlap[s] >= limit * union[s]:
                hit_human[hits] = h
                hit_predicted[hits] = predicted[s]
                hit_overlap[hits] = overlap[s]
                hit_union[hits] = union[s]
                hits += 1
    hit_row[rows] = hits
    return hits


@jit
def humans_of(taken, human, matched):  # type: ignore[no-untyped-def]
    """Writes the human of the pair that each prediction is taken by; returns the number of matches."""
    count = 0
    for p in range(len(matched)):
        if taken[p] >= 0:
            matched[p] = human[taken[p]]
            count += 1
    return count


@jit
def match_timelines(  # type: ignore[no-untyped-def]
    first, last, clip, h_offset, h_start, h_end, h_start_unit, h_end_unit, p_offset, p_start_s, p_end_s,
    units_per_s, tolerance, temporal_limit, seg_limit, any_limit, later_first,
    pa, boundary, temporal, seg, any_iou, counts, boundary_open, seg_open,
):  # fmt: skip
    """Matches timelines first..last; a metric whose output array is empty is left out.

    `pa`, `boundary`, `temporal`, `seg`, `any_iou`: per prediction the rank of its human in the clip, or -1. `counts`:
    for each of the five (in this order) how many matches a timeline has. `boundary_open` and `seg_open`, per timeline:
    1 where pairs compete on both sides; there the greedy boundary matching need not be the optimal one, and `seg` is
    left to :mod:`mabpl.matching`.
    """
    widest = 1
    for t in range(first, last):
        widest = max(widest, h_offset[clip[t] + 1] - h_offset[clip[t]], p_offset[t + 1] - p_offset[t])
    p_start, p_end = np.empty(widest, np.int64), np.empty(widest, np.int64)
    row = np.empty(widest + 1, np.int64)
    by_human, by_predicted = np.empty(widest + 1, np.int64), np.empty(widest + 1, np.int64)
    pairs = np.empty((9, 4 * widest), np.int64)
    nothing = np.empty(0, np.int64)
    for t in range(first, last):
        h0, h1 = h_offset[clip[t]], h_offset[clip[t] + 1]
        p0, p1 = p_offset[t], p_offset[t + 1]
        nx, ny = p1 - p0, h1 - h0
        for matched in (pa, boundary, temporal, seg, any_iou):
            if len(matched) > 0:
                for p in range(nx):
                    matched[p0 + p] = -1
        if nx == 0 or ny == 0:
            continue
        human, predicted, value = pairs[0], pairs[1], pairs[2]
        if len(boundary) > 0:
            for p in range(nx):
                p_start[p] = round(p_start_s[p0 + p] * units_per_s)
                p_end[p] = round(p_end_s[p0 + p] * units_per_s)
            n = boundary_pairs(
                h0, h1, 0, nx, h_start_unit, h_end_unit, p_start, p_end, tolerance, row, human, predicted, value
            )
            if n > pairs.shape[1]:
                pairs = np.empty((9, 2 * n), np.int64)
                human, predicted, value = pairs[0], pairs[1], pairs[2]
                boundary_pairs(
                    h0, h1, 0, nx, h_start_unit, h_end_unit, p_start, p_end, tolerance, row, human, predicted, value
                )
            greedy(nx, row, n, predicted, human, ny, value, nothing, False, by_human, pairs[3])
            for h in range(ny):
                if by_human[h] >= 0:
                    boundary[p0 + predicted[by_human[h]]] = h
                    counts[1, t] += 1
            if not only_stars(n, human, predicted, by_human, by_predicted):
                boundary_open[t] = 1
        if len(pa) == 0 and len(temporal) == 0 and len(seg) == 0 and len(any_iou) == 0:
            continue
        for p in range(nx):
            p_start[p] = round(p_start_s[p0 + p] * 1e6)
            p_end[p] = round(p_end_s[p0 + p] * 1e6)
        overlap, union = pairs[2], pairs[3]
        n = overlapping_pairs(h0, h1, 0, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap)
        needed = n + 2 * ny  # snapping can add two hits a human
        if needed > pairs.shape[1]:
            pairs = np.empty((9, 2 * needed), np.int64)
            human, predicted, overlap, union = pairs[0], pairs[1], pairs[2], pairs[3]
            overlapping_pairs(h0, h1, 0, nx, h_start, h_end, p_start, p_end, row, human, predicted, overlap)
        for s in range(n):
            union[s] = union_of(h0 + human[s], predicted[s], h_start, h_end, p_start, p_end, overlap[s])
        if len(pa) > 0:
            greedy(ny, row, n, human, predicted, nx, overlap, nothing, later_first, by_predicted, pairs[4])
            counts[0, t] = humans_of(by_predicted, human, pa[p0:p1])
        if len(temporal) > 0:
            counts[2, t] = best_iou_in_order(ny, row, predicted, overlap, union, temporal_limit, temporal[p0:p1])
        hit_human, hit_predicted, hit_overlap, hit_union = pairs[5], pairs[6], pairs[7], pairs[8]
        if len(seg) > 0:
            hits = snapped_hits(
                h0, h1, 0, nx, h_start, h_end, p_start, p_end, seg_limit, row, predicted, overlap, union,
                hit_human, hit_predicted, hit_overlap, hit_union,
            )  # fmt: skip
            if only_stars(hits, hit_human, hit_predicted, by_human, by_predicted):
                counts[3, t] = best_of_each_star(
                    hits, hit_human, hit_predicted, hit_overlap, hit_union, seg[p0:p1], by_human
                )
            else:
                seg_open[t] = 1
        if len(any_iou) > 0:
            hits = at_least(
                any_limit,
                ny,
                row,
                predicted,
                overlap,
                union,
                by_human,
                hit_human,
                hit_predicted,
                hit_overlap,
                hit_union,
            )
            greedy(
                ny, by_human, hits, hit_human, hit_predicted, nx, hit_overlap, hit_union, False, by_predicted, pairs[4]
            )
            counts[4, t] = humans_of(by_predicted, hit_human, any_iou[p0:p1])
