"""Exact one-to-one matching where pairs compete on both sides. Rare: most timelines never come here.

A matching has as many pairs as possible; among those the largest total weight (an exact fraction); among those the
lexicographically first list of (human, predicted).
"""

from __future__ import annotations

import math
from fractions import Fraction

Pair = tuple[int, int]


def best_matching(weights: dict[Pair, Fraction]) -> list[Pair]:
    """The best matching of the bipartite graph whose pairs (human, predicted) have these weights >= 0.

    Each pair's three aims become one integer, so that a plain maximum-weight matching finds the one best answer.
    """
    chosen: list[Pair] = []
    for pairs in _components(weights):
        if len(pairs) == 1:
            chosen += pairs
        else:
            chosen += _best_of_component(pairs, weights)
    return sorted(chosen)


def _components(weights: dict[Pair, Fraction]) -> list[list[Pair]]:
    of_human: dict[int, list[Pair]] = {}
    of_predicted: dict[int, list[Pair]] = {}
    for pair in sorted(weights):
        of_human.setdefault(pair[0], []).append(pair)
        of_predicted.setdefault(pair[1], []).append(pair)
    seen: set[Pair] = set()
    components = []
    for pair in sorted(weights):
        if pair in seen:
            continue
        seen.add(pair)
        component = [pair]
        for human, predicted in component:  # grows while it is walked
            for near in of_human[human] + of_predicted[predicted]:
                if near not in seen:
                    seen.add(near)
                    component.append(near)
        components.append(sorted(component))
    return components


def _best_of_component(pairs: list[Pair], weights: dict[Pair, Fraction]) -> list[Pair]:
    scale = math.lcm(*(weights[pair].denominator for pair in pairs))
    size = min(len({h for h, _ in pairs}), len({p for _, p in pairs}))
    n = len(pairs)
    # Powers of two make an earlier pair worth more than all later ones together.
    values = {pair: (int(weights[pair] * scale) << n) + (1 << (n - 1 - i)) for i, pair in enumerate(pairs)}
    one_more = max(values.values()) * (size + 1) + 1
    return _heaviest({pair: value + one_more for pair, value in values.items()})


def _heaviest(values: dict[Pair, int]) -> list[Pair]:
    """Maximum-weight matching by successive best augmenting paths (Bellman-Ford on exact integers)."""
    by_human: dict[int, list[int]] = {}
    for human, predicted in values:
        by_human.setdefault(human, []).append(predicted)
    human_of: dict[int, int] = {}
    while True:
        # gain[p]: the best change of total weight of an alternating path from a free human to prediction p
        gain: dict[int, int] = {}
        came_from: dict[int, int] = {}
        taken = set(human_of.values())
        for human, options in by_human.items():
            if human not in taken:
                for predicted in options:
                    if values[human, predicted] > gain.get(predicted, -1):
                        gain[predicted], came_from[predicted] = values[human, predicted], human
        waiting = list(gain)
        while waiting:
            predicted = waiting.pop(0)
            if predicted not in human_of:
                continue
            human = human_of[predicted]
            given_up = gain[predicted] - values[human, predicted]
            for other in by_human[human]:
                if other != predicted and (other not in gain or given_up + values[human, other] > gain[other]):
                    gain[other], came_from[other] = given_up + values[human, other], human
                    if other not in waiting:
                        waiting.append(other)
        free = [(gain[p], p) for p in gain if p not in human_of]
        if not free or max(free)[0] <= 0:
            return [(human, predicted) for predicted, human in human_of.items()]
        _, predicted = max(free)
        partner = {human: p for p, human in human_of.items()}
        while True:
            human = came_from[predicted]
            before = partner.get(human)
            human_of[predicted] = human
            if before is None:
                break
            predicted = before
