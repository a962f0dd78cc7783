"""Reads the thermometer."""

OFFSET = -0.5


def celsius(raw: int) -> float:
    """Degrees from what the sensor gives."""
    return raw / 16 + OFFSET


def is_frost(raw: int) -> bool:
    return celsius(raw) < 0
