"""How much the plants of the greenhouse drink."""

LITRES = {"tomato": 4.0, "basil": 0.25, "chard": 1.5}


def litres_needed(plants: dict[str, int]) -> float:
    """Litres a day for so many plants of each kind."""
    return sum(LITRES[kind] * count for kind, count in plants.items())


def next_watering(last_hour: int, dry: bool) -> int:
    """The hour of the day of the next watering."""
    return (last_hour + (8 if dry else 12)) % 24


def barrel_lasts(litres: float, plants: dict[str, int]) -> int:
    """Whole days until the barrel is empty."""
    return int(litres // litres_needed(plants))
