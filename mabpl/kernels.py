"""The matching kernels: plain loops over sorted arrays with offsets.

One file, loaded in two ways (see :mod:`mabpl.engine`): as it stands, which is fastest for small jobs, and compiled by
numba, which is fastest for large ones. No tables, no files, no names of columns. Everything is an integer:
microseconds for overlaps, and for boundaries the unit of the time base (1/30 s, or nanoseconds).

A timeline's segments come in the order (start, end, position). Index -1 means "no match". The definitions are those of
:mod:`mabpl.reference`, which says the same without speed.
"""

import numpy as np

jit = globals().get("jit", lambda function: function)  # the engine puts numba's decorator here before it loads the file

WIDEST_KEY = 62  # bits of an int64 sort key that can be used without touching the sign
SMALL = 64  # up to this length an insertion sort is faster than setting up a quicksort


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
def overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap):  # type: ignore[no-untyped-def]
    """Overlapping pairs of humans h0..h1 and predictions p0..p1, as ranks from 0, by human and then by prediction.

    Fills the last three arrays as far as they reach and returns how many pairs there are.
    """
    for p in range(p0 + 1, p1):
        if p_end[p] < p_end[p - 1]:
            return _sweep(h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap)
    # Starts and ends of the predictions ascend: those that overlap a human segment are neighbours.
    n = 0
    room = len(human)
    low = p0
    for h in range(h0, h1):
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
    return n


@jit
def _sweep(h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap):  # type: ignore[no-untyped-def]
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
    per_human = np.zeros(ny + 1, np.int64)
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
                    per_human[i + 1] += 1
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
                    per_human[h + 1] += 1
                    n += 1
            n_open_humans = kept
            open_predicted[n_open_predicted] = j
            n_open_predicted += 1
            j += 1
    # Each human met its predictions in ascending order, so a stable counting sort by human orders the pairs.
    for h in range(ny):
        per_human[h + 1] += per_human[h]
    room = len(human)
    for s in range(n):
        h = met[0, s]
        p = met[1, s]
        at = per_human[h]
        per_human[h] += 1
        if at < room:
            human[at] = h
            predicted[at] = p
            overlap[at] = min(h_end[h0 + h], p_end[p0 + p]) - max(h_start[h0 + h], p_start[p0 + p])
    return n


@jit
def boundary_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, tolerance, human, predicted, error):  # type: ignore[no-untyped-def]
    """Pairs with both ends within `tolerance` and their total error, by prediction and then by human.

    Fills the last three arrays as far as they reach and returns how many pairs there are.
    """
    n = 0
    room = len(human)
    low = h0
    for p in range(p0, p1):
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
                    error[n] = abs(h_start[h] - start) + end_error
                n += 1
            h += 1
    return n


@jit
def greedy(n, human, predicted, cost, later_first, matched, keys, human_taken):  # type: ignore[no-untyped-def]
    """One-to-one, least cost first; ties: the first pair of the list (or the last one).

    Only pairs that share a segment compete, so the list may go by human or by prediction. Writes the human's rank into
    `matched[prediction's rank]`.
    """
    bits = 0
    while (1 << bits) < n:
        bits += 1
    top = 0
    for s in range(n):
        top = max(top, cost[s])
        human_taken[human[s]] = 0
    if top < (1 << (WIDEST_KEY - bits)):
        for s in range(n):
            keys[s] = (cost[s] << bits) | (n - 1 - s if later_first else s)
        if n > SMALL:
            keys[:n].sort()
        else:
            for s in range(1, n):
                key = keys[s]
                k = s
                while k > 0 and keys[k - 1] > key:
                    keys[k] = keys[k - 1]
                    k -= 1
                keys[k] = key
        for s in range(n):
            keys[s] &= (1 << bits) - 1
    elif later_first:
        keys[:n] = np.argsort(cost[:n][::-1], kind="mergesort")
    else:
        keys[:n] = np.argsort(cost[:n], kind="mergesort")
    for k in range(n):
        s = n - 1 - keys[k] if later_first else keys[k]
        h = human[s]
        p = predicted[s]
        if human_taken[h] == 0 and matched[p] < 0:
            human_taken[h] = 1
            matched[p] = h


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
def best_iou_in_order(n, human, predicted, overlap, union, limit, matched):  # type: ignore[no-untyped-def]
    """Humans in order take the unused prediction of greatest IoU, if that is at least `limit`; ties: the earlier."""
    s = 0
    while s < n:
        h = human[s]
        best = -1
        while s < n and human[s] == h:
            if (
                overlap[s] >= limit * union[s]
                and matched[predicted[s]] < 0
                and (best < 0 or greater(overlap[s], union[s], overlap[best], union[best]))
            ):
                best = s
            s += 1
        if best >= 0:
            matched[predicted[best]] = h


@jit
def snapped_hits(  # type: ignore[no-untyped-def]
    h0, h1, p0, p1, h_start, h_end, p_start, p_end, limit, n, human, predicted, overlap, union,
    hit_human, hit_predicted, hit_overlap, hit_union,
):  # fmt: skip
    """Pairs with IoU >= `limit` after snapping the outer ends of the predictions to those of the humans.

    The first prediction takes the first human start, the prediction that ends last (the first such) takes the last
    human end. Only those two change; all others come from the `n` overlapping pairs. Fills the last four arrays as far
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
    s = 0
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
        while s < n and human[s] == h:
            p = predicted[s]
            if overlap[s] >= limit * union[s] and p != 0 and p != last:
                if hits < room:
                    hit_human[hits] = h
                    hit_predicted[hits] = p
                    hit_overlap[hits] = overlap[s]
                    hit_union[hits] = union[s]
                hits += 1
            s += 1
    return hits


@jit
def best_of_each_star(n, human, predicted, overlap, union, matched, best_of_human):  # type: ignore[no-untyped-def]
    """For pairs by human that are stars (see `only_stars`): each star's pair of greatest IoU.

    Ties: the earlier human, then the earlier prediction.
    """
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
        best_of_human[h] = s
        matched[p] = h


@jit
def greedy_by_iou(n, human, predicted, overlap, union, limit, matched, human_taken):  # type: ignore[no-untyped-def]
    """One-to-one, greatest IoU first, if at least `limit`; ties: earlier human, then earlier prediction."""
    hits = np.empty(n, np.int64)
    ratio = np.empty(n, np.float64)
    count = 0
    for s in range(n):
        human_taken[human[s]] = 0
        if overlap[s] >= limit * union[s]:
            hits[count] = s
            ratio[count] = -(overlap[s] / union[s])
            count += 1
    order = hits[:count][np.argsort(ratio[:count], kind="mergesort")]
    for i in range(1, count):  # equal quotients may hide unequal fractions
        k = i
        while k > 0 and greater(overlap[order[k]], union[order[k]], overlap[order[k - 1]], union[order[k - 1]]):
            order[k], order[k - 1] = order[k - 1], order[k]
            k -= 1
    for s in order:
        if human_taken[human[s]] == 0 and matched[predicted[s]] < 0:
            human_taken[human[s]] = 1
            matched[predicted[s]] = human[s]


@jit
def match_timelines(  # type: ignore[no-untyped-def]
    first, last, clip, h_offset, h_start, h_end, h_start_unit, h_end_unit,
    p_offset, p_start, p_end, p_start_unit, p_end_unit,
    tolerance, temporal_limit, seg_limit, any_limit, later_first,
    pa, boundary, temporal, seg, any_iou, boundary_open, seg_open,
):  # fmt: skip
    """Matches timelines first..last; a metric whose output array is empty is left out.

    `pa`, `boundary`, `temporal`, `seg`, `any_iou`: per prediction the rank of its human in the clip, or -1 (filled
    with -1 by the caller). `boundary_open` and `seg_open`, per timeline: 1 where pairs compete on both sides; there
    the greedy boundary matching need not be the optimal one, and `seg` is left to :mod:`mabpl.matching`.
    """
    widest = 1
    for t in range(first, last):
        widest = max(widest, h_offset[clip[t] + 1] - h_offset[clip[t]], p_offset[t + 1] - p_offset[t])
    by_human = np.empty(widest, np.int64)
    by_predicted = np.empty(widest, np.int64)
    best = np.empty(widest, np.int64)
    pairs = np.empty((9, 4 * widest), np.int64)
    for t in range(first, last):
        h0 = h_offset[clip[t]]
        h1 = h_offset[clip[t] + 1]
        p0 = p_offset[t]
        p1 = p_offset[t + 1]
        if h0 == h1 or p0 == p1:
            continue
        human, predicted, cost, keys = pairs[0], pairs[1], pairs[2], pairs[3]
        if len(boundary) > 0:
            n = boundary_pairs(
                h0, h1, p0, p1, h_start_unit, h_end_unit, p_start_unit, p_end_unit, tolerance, human, predicted, cost
            )
            if n > pairs.shape[1]:
                pairs = np.empty((9, 2 * n), np.int64)
                human, predicted, cost, keys = pairs[0], pairs[1], pairs[2], pairs[3]
                boundary_pairs(
                    h0, h1, p0, p1, h_start_unit, h_end_unit, p_start_unit, p_end_unit, tolerance,
                    human, predicted, cost,
                )  # fmt: skip
            greedy(n, human, predicted, cost, False, boundary[p0:p1], keys, by_human)
            if not only_stars(n, human, predicted, by_human, by_predicted):
                boundary_open[t] = 1
        if len(pa) == 0 and len(temporal) == 0 and len(seg) == 0 and len(any_iou) == 0:
            continue
        overlap, union = pairs[4], pairs[5]
        n = overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap)
        needed = n + 2 * (h1 - h0)  # snapping can add two hits a human
        if needed > pairs.shape[1]:
            pairs = np.empty((9, 2 * needed), np.int64)
            human, predicted, cost, keys, overlap, union = pairs[0], pairs[1], pairs[2], pairs[3], pairs[4], pairs[5]
            overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap)
        longest = 0
        for s in range(n):
            union[s] = union_of(h0 + human[s], p0 + predicted[s], h_start, h_end, p_start, p_end, overlap[s])
            longest = max(longest, overlap[s])
        if len(pa) > 0:
            for s in range(n):
                cost[s] = longest - overlap[s]
            greedy(n, human, predicted, cost, later_first, pa[p0:p1], keys, by_human)
        if len(temporal) > 0:
            best_iou_in_order(n, human, predicted, overlap, union, temporal_limit, temporal[p0:p1])
        if len(any_iou) > 0:
            greedy_by_iou(n, human, predicted, overlap, union, any_limit, any_iou[p0:p1], by_human)
        if len(seg) > 0:
            hit_human, hit_predicted, hit_overlap, hit_union = pairs[2], pairs[6], pairs[7], pairs[8]
            n = snapped_hits(
                h0, h1, p0, p1, h_start, h_end, p_start, p_end, seg_limit, n, human, predicted, overlap, union,
                hit_human, hit_predicted, hit_overlap, hit_union,
            )  # fmt: skip
            if only_stars(n, hit_human, hit_predicted, by_human, by_predicted):
                best_of_each_star(n, hit_human, hit_predicted, hit_overlap, hit_union, seg[p0:p1], best)
            else:
                seg_open[t] = 1
