"""The club's money."""


class Ledger:
    """Entries in euros, in the order in which they came."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, float]] = []

    def add_entry(self, what: str, euros: float) -> None:
        if not what:
            raise ValueError("say what it is for")
        self.entries.append((what, euros))

    def balance(self) -> float:
        return round(sum(euros for _, euros in self.entries), 2)


def overdue(paid: set[str], members: set[str]) -> set[str]:
    """Who has not paid."""
    return members - paid
