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
def overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end):  # type: ignore[no-untyped-def]
    """All overlapping pairs of humans h0..h1 and predictions p0..p1, by human, then by prediction (ranks from 0).

    A sweep over the starts: whoever starts meets those of the other side that have not ended. Each pair is met once
    and each segment leaves once, so the work is the number of segments plus the number of pairs.
    """
    ny = h1 - h0
    nx = p1 - p0
    capacity = 2 * (nx + ny) + 8
    human = np.empty(capacity, np.int64)
    predicted = np.empty(capacity, np.int64)
    n = 0
    open_humans = np.empty(ny, np.int64)
    open_predicted = np.empty(nx, np.int64)
    n_open_humans = 0
    n_open_predicted = 0
    per_human = np.zeros(ny + 1, np.int64)
    i = 0
    j = 0
    while i < ny or j < nx:
        if j == nx or (i < ny and h_start[h0 + i] <= p_start[p0 + j]):
            now = h_start[h0 + i]
            kept = 0
            if n + n_open_predicted > capacity:
                capacity = 2 * capacity + n_open_predicted
                human = _grown(human, n, capacity)
                predicted = _grown(predicted, n, capacity)
            for s in range(n_open_predicted):
                p = open_predicted[s]
                if p_end[p0 + p] > now:
                    open_predicted[kept] = p
                    kept += 1
                    human[n] = i
                    predicted[n] = p
                    per_human[i + 1] += 1
                    n += 1
            n_open_predicted = kept
            open_humans[n_open_humans] = i
            n_open_humans += 1
            i += 1
        else:
            now = p_start[p0 + j]
            kept = 0
            if n + n_open_humans > capacity:
                capacity = 2 * capacity + n_open_humans
                human = _grown(human, n, capacity)
                predicted = _grown(predicted, n, capacity)
            for s in range(n_open_humans):
                h = open_humans[s]
                if h_end[h0 + h] > now:
                    open_humans[kept] = h
                    kept += 1
                    human[n] = h
                    predicted[n] = j
                    per_human[h + 1] += 1
                    n += 1
            n_open_humans = kept
            open_predicted[n_open_predicted] = j
            n_open_predicted += 1
            j += 1
    # Each human met its predictions in ascending order, so a stable counting sort by human orders the pairs.
    for h in range(ny):
        per_human[h + 1] += per_human[h]
    sorted_human = np.empty(n, np.int64)
    sorted_predicted = np.empty(n, np.int64)
    for s in range(n):
        at = per_human[human[s]]
        per_human[human[s]] += 1
        sorted_human[at] = human[s]
        sorted_predicted[at] = predicted[s]
    return sorted_human, sorted_predicted


@jit
def _grown(array, n, capacity):  # type: ignore[no-untyped-def]
    larger = np.empty(capacity, np.int64)
    larger[:n] = array[:n]
    return larger


@jit
def boundary_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end, tolerance):  # type: ignore[no-untyped-def]
    """All pairs with both ends within `tolerance`, and their total error."""
    ny = h1 - h0
    nx = p1 - p0
    capacity = 2 * (nx + ny) + 8
    human = np.empty(capacity, np.int64)
    predicted = np.empty(capacity, np.int64)
    error = np.empty(capacity, np.int64)
    n = 0
    low = 0
    for p in range(nx):
        start = p_start[p0 + p]
        end = p_end[p0 + p]
        while low < ny and h_start[h0 + low] < start - tolerance:
            low += 1
        h = low
        while h < ny and h_start[h0 + h] <= start + tolerance:
            end_error = abs(h_end[h0 + h] - end)
            if end_error <= tolerance:
                if n == capacity:
                    capacity *= 2
                    human = _grown(human, n, capacity)
                    predicted = _grown(predicted, n, capacity)
                    error = _grown(error, n, capacity)
                human[n] = h
                predicted[n] = p
                error[n] = abs(h_start[h0 + h] - start) + end_error
                n += 1
            h += 1
    return human[:n], predicted[:n], error[:n]


@jit
def greedy(human, predicted, cost, nx, ny, later_first, matched):  # type: ignore[no-untyped-def]
    """One-to-one, least cost first; ties: earlier human, then earlier prediction (or the later ones).

    Writes the human's rank into `matched[prediction's rank]`.
    """
    n = len(cost)
    cells = nx * ny
    bits = 0
    while (1 << bits) < cells:
        bits += 1
    top = 0
    for s in range(n):
        top = max(top, cost[s])
    cells_by_cost = np.empty(n, np.int64)
    for s in range(n):
        cell = human[s] * nx + predicted[s]
        cells_by_cost[s] = cells - 1 - cell if later_first else cell
    if top < (1 << (WIDEST_KEY - bits)):
        keys = np.empty(n, np.int64)
        for s in range(n):
            keys[s] = (cost[s] << bits) | cells_by_cost[s]
        keys.sort()
        mask = (1 << bits) - 1
        for s in range(n):
            cells_by_cost[s] = keys[s] & mask
    else:
        by_cell = np.argsort(cells_by_cost)
        by_cost = np.argsort(cost[by_cell], kind="mergesort")
        cells_by_cost = cells_by_cost[by_cell[by_cost]]
    human_free = np.ones(ny, np.bool_)
    for s in range(n):
        cell = cells_by_cost[s]
        if later_first:
            cell = cells - 1 - cell
        h = cell // nx
        p = cell - h * nx
        if human_free[h] and matched[p] < 0:
            human_free[h] = False
            matched[p] = h


@jit
def only_stars(human, predicted, nx, ny):  # type: ignore[no-untyped-def]
    """Whether every pair has an end that is in no other pair: then each star simply takes its best pair."""
    human_degree = np.zeros(ny, np.int64)
    predicted_degree = np.zeros(nx, np.int64)
    for s in range(len(human)):
        human_degree[human[s]] += 1
        predicted_degree[predicted[s]] += 1
    for s in range(len(human)):  # noqa: SIM110 (numba compiles no generators)
        if human_degree[human[s]] > 1 and predicted_degree[predicted[s]] > 1:
            return False
    return True


@jit
def best_iou_in_order(human, predicted, overlap, union, limit, matched):  # type: ignore[no-untyped-def]
    """Humans in order take the unused prediction of greatest IoU, if that is at least `limit`; ties: the earlier."""
    n = len(human)
    s = 0
    while s < n:
        h = human[s]
        best = -1
        while s < n and human[s] == h:
            if (
                matched[predicted[s]] < 0
                and overlap[s] >= limit * union[s]
                and (best < 0 or greater(overlap[s], union[s], overlap[best], union[best]))
            ):
                best = s
            s += 1
        if best >= 0:
            matched[predicted[best]] = h


@jit
def snapped_hits(  # type: ignore[no-untyped-def]
    h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap, union, limit
):
    """Pairs with IoU >= `limit` after snapping the outer ends of the predictions to those of the humans.

    The first prediction takes the first human start, the prediction that ends last (the first such) takes the last
    human end. Only those two change, so all other pairs are taken from the overlapping ones. By human, then prediction.
    """
    nx = p1 - p0
    ny = h1 - h0
    last = 0
    for p in range(1, nx):
        if p_end[p0 + p] > p_end[p0 + last]:
            last = p
    last_end = h_end[h0]
    for h in range(1, ny):
        last_end = max(last_end, h_end[h0 + h])
    capacity = len(human) + 2 * ny
    hit_human = np.empty(capacity, np.int64)
    hit_predicted = np.empty(capacity, np.int64)
    hit_overlap = np.empty(capacity, np.int64)
    hit_union = np.empty(capacity, np.int64)
    n = 0
    s = 0
    for h in range(ny):
        n = _snapped_hit(
            h, 0, h0, p0, h_start, h_end, h_start[h0], last_end if last == 0 else p_end[p0], limit,
            hit_human, hit_predicted, hit_overlap, hit_union, n,
        )  # fmt: skip
        last_done = last == 0
        while s < len(human) and human[s] == h:
            p = predicted[s]
            if p > last and not last_done:
                n = _snapped_hit(
                    h, last, h0, p0, h_start, h_end, p_start[p0 + last], last_end, limit,
                    hit_human, hit_predicted, hit_overlap, hit_union, n,
                )  # fmt: skip
                last_done = True
            if p not in (0, last) and overlap[s] >= limit * union[s]:
                hit_human[n] = h
                hit_predicted[n] = p
                hit_overlap[n] = overlap[s]
                hit_union[n] = union[s]
                n += 1
            s += 1
        if not last_done:
            n = _snapped_hit(
                h, last, h0, p0, h_start, h_end, p_start[p0 + last], last_end, limit,
                hit_human, hit_predicted, hit_overlap, hit_union, n,
            )  # fmt: skip
    return hit_human[:n], hit_predicted[:n], hit_overlap[:n], hit_union[:n]


@jit
def _snapped_hit(  # type: ignore[no-untyped-def]
    h, p, h0, p0, h_start, h_end, start, end, limit, hit_human, hit_predicted, hit_overlap, hit_union, n
):
    overlap = min(h_end[h0 + h], end) - max(h_start[h0 + h], start)
    if overlap > 0 and end > start:
        union = (h_end[h0 + h] - h_start[h0 + h]) + (end - start) - overlap
        if overlap >= limit * union:
            hit_human[n] = h
            hit_predicted[n] = p
            hit_overlap[n] = overlap
            hit_union[n] = union
            return n + 1
    return n


@jit
def best_of_each_star(human, predicted, overlap, union, nx, ny, matched):  # type: ignore[no-untyped-def]
    """For pairs that are stars (see `only_stars`): each star's pair of greatest IoU; ties: the first."""
    n = len(human)
    human_degree = np.zeros(ny, np.int64)
    for s in range(n):
        human_degree[human[s]] += 1
    best_of_human = np.full(ny, -1, np.int64)
    best_of_predicted = np.full(nx, -1, np.int64)
    for s in range(n):
        h = human[s]
        p = predicted[s]
        if human_degree[h] > 1:
            best = best_of_human[h]
            if best < 0 or greater(overlap[s], union[s], overlap[best], union[best]):
                best_of_human[h] = s
        else:
            best = best_of_predicted[p]
            if best < 0 or greater(overlap[s], union[s], overlap[best], union[best]):
                best_of_predicted[p] = s
    for h in range(ny):
        if best_of_human[h] >= 0:
            matched[predicted[best_of_human[h]]] = h
    for p in range(nx):
        if best_of_predicted[p] >= 0:
            matched[p] = human[best_of_predicted[p]]


@jit
def greedy_by_iou(human, predicted, overlap, union, limit, ny, matched):  # type: ignore[no-untyped-def]
    """One-to-one, greatest IoU first, if at least `limit`; ties: earlier human, then earlier prediction."""
    n = 0
    hits = np.empty(len(human), np.int64)
    for s in range(len(human)):
        if overlap[s] >= limit * union[s]:
            hits[n] = s
            n += 1
    ratio = np.empty(n, np.float64)
    for s in range(n):
        ratio[s] = -(overlap[hits[s]] / union[hits[s]])
    order = hits[:n][np.argsort(ratio, kind="mergesort")]
    for i in range(1, n):  # equal quotients may hide unequal fractions
        s = i
        while s > 0 and greater(overlap[order[s]], union[order[s]], overlap[order[s - 1]], union[order[s - 1]]):
            order[s], order[s - 1] = order[s - 1], order[s]
            s -= 1
    human_free = np.ones(ny, np.bool_)
    for s in order:
        if human_free[human[s]] and matched[predicted[s]] < 0:
            human_free[human[s]] = False
            matched[predicted[s]] = human[s]


@jit
def lengths(h0, p0, h_start, h_end, p_start, p_end, human, predicted):  # type: ignore[no-untyped-def]
    """Overlap and union of each pair."""
    n = len(human)
    overlap = np.empty(n, np.int64)
    union = np.empty(n, np.int64)
    for s in range(n):
        h = h0 + human[s]
        p = p0 + predicted[s]
        overlap[s] = min(h_end[h], p_end[p]) - max(h_start[h], p_start[p])
        union[s] = (h_end[h] - h_start[h]) + (p_end[p] - p_start[p]) - overlap[s]
    return overlap, union


@jit
def match_timelines(  # type: ignore[no-untyped-def]
    first, last, clip, h_offset, h_start, h_end, h_start_tick, h_end_tick,
    p_offset, p_start, p_end, p_start_tick, p_end_tick,
    tolerance, temporal_limit, seg_limit, any_limit, later_first,
    pa, boundary, temporal, seg, any_iou, boundary_open, seg_open,
):  # fmt: skip
    """Matches timelines first..last; a metric whose output array is empty is left out.

    `pa`, `boundary`, `temporal`, `seg`, `any_iou`: per prediction the rank of its human in the clip, or -1 (filled
    with -1 by the caller). `boundary_open` and `seg_open`, per timeline: 1 where pairs compete on both sides; there
    the greedy boundary matching need not be the optimal one, and `seg` is left to :mod:`mabpl.matching`.
    """
    for t in range(first, last):
        h0 = h_offset[clip[t]]
        h1 = h_offset[clip[t] + 1]
        p0 = p_offset[t]
        p1 = p_offset[t + 1]
        nx = p1 - p0
        ny = h1 - h0
        if nx == 0 or ny == 0:
            continue
        if len(boundary) > 0:
            human, predicted, error = boundary_pairs(
                h0, h1, p0, p1, h_start_tick, h_end_tick, p_start_tick, p_end_tick, tolerance
            )
            greedy(human, predicted, error, nx, ny, False, boundary[p0:p1])
            if not only_stars(human, predicted, nx, ny):
                boundary_open[t] = 1
        if len(pa) == 0 and len(temporal) == 0 and len(seg) == 0 and len(any_iou) == 0:
            continue
        human, predicted = overlapping_pairs(h0, h1, p0, p1, h_start, h_end, p_start, p_end)
        overlap, union = lengths(h0, p0, h_start, h_end, p_start, p_end, human, predicted)
        if len(pa) > 0:
            longest = 0
            for s in range(len(overlap)):
                longest = max(longest, overlap[s])
            greedy(human, predicted, longest - overlap, nx, ny, later_first, pa[p0:p1])
        if len(temporal) > 0:
            best_iou_in_order(human, predicted, overlap, union, temporal_limit, temporal[p0:p1])
        if len(any_iou) > 0:
            greedy_by_iou(human, predicted, overlap, union, any_limit, ny, any_iou[p0:p1])
        if len(seg) > 0:
            human, predicted, overlap, union = snapped_hits(
                h0, h1, p0, p1, h_start, h_end, p_start, p_end, human, predicted, overlap, union, seg_limit
            )
            if only_stars(human, predicted, nx, ny):
                best_of_each_star(human, predicted, overlap, union, nx, ny, seg[p0:p1])
            else:
                seg_open[t] = 1
