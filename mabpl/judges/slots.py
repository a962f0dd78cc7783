"""A label read as slots: what is done, to what, where, with what, with which hand.

``hold the plank steady with the left hand; saw the plank with the right hand`` has two clauses. Labels may be
imperative (``place the lid``), a completed event (``placed the lid``, ``the lid is placed``), snake_case
(``place_lid``), or tell who acts (``the left hand places the lid``). Reading never fails: what is not understood is
left out, and a label that names no action (``idle``, ``no_completed_subtask``, an empty one) has no clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from mabpl.judges.lexicon import is_noun, renamed, singular, verb_classes, verb_forms, words

LONGEST = 16
"""Clauses of a label that are read; the rest is ignored."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A noun phrase: ``the small red glass coffee jar`` has head jar, kinds {coffee}, colours {red}."""

    head: str
    kinds: frozenset[str] = frozenset()
    colours: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Clause:
    """One action. ``verbs`` are names for it (``push the drawer to close it`` has two), as the label has them.

    ``things`` begins with what is acted upon; what it is made of, holds or is part of follows. ``sources`` are where
    it comes from, ``goals`` where it goes or stays. ``hands`` is left, right, both, or empty: the label does not tell.
    """

    verbs: tuple[str, ...]
    things: tuple[Thing, ...] = ()
    sources: tuple[Thing, ...] = ()
    goals: tuple[Thing, ...] = ()
    tools: tuple[Thing, ...] = ()
    hands: str = ""

    @property
    def classes(self) -> frozenset[str]:
        return _classes(self.verbs)


@dataclass(frozen=True, slots=True)
class Label:
    """``words`` is the text without punctuation and case, by which two labels are the same."""

    words: str
    clauses: tuple[Clause, ...]


@lru_cache(maxsize=1 << 12)
def _classes(verbs: tuple[str, ...]) -> frozenset[str]:
    return frozenset().union(*(verb_classes().get(verb, ()) for verb in verbs))


@lru_cache(maxsize=1 << 16)
def read_label(text: str) -> Label:
    """The slots of ``text``; each distinct label is read once."""
    plain = " ".join(re.findall(r"[^\W_]+", text.casefold()))
    clauses: list[Clause] = []
    for link, tokens in _split(_tokens(text)):
        clause = _clause(tokens)
        if clauses and link in ("to", "by"):
            clauses[-1] = _in_other_words(clauses[-1], clause)
            continue
        if clauses and link and not clauses[-1].things:  # unscrew and remove the lid
            clauses[-1] = replace(clauses[-1], things=clause.things)
        if clauses and not clause.things:  # pick up the cup; hold it
            clause = replace(clause, things=clauses[-1].things)
        clauses.append(clause)
    active = [clause for clause in clauses if "nothing" not in clause.classes and (clause.verbs or clause.things)]
    return Label(plain, tuple(active[:LONGEST]))


@lru_cache(maxsize=1 << 16)
def things_in(text: str) -> tuple[Thing, ...]:
    """Every word of free text as the head of a noun phrase, with what stands before it there, in order."""
    things: list[Thing | None] = []
    phrase: list[str] = []
    for token in _tokens(text):
        if token[0] == "§" or not token.isalnum() or token in words("article") or _role(token):
            phrase = []
            continue
        phrase.append(token)
        things.append(_thing(tuple(phrase[-_MODIFIERS:])))
    return tuple(dict.fromkeys(thing for thing in things if thing is not None))


_MODIFIERS = 4
"""Words of a noun phrase that are read in free text, its head included."""

# --- from text to clauses ---


@cache
def _phrases() -> re.Pattern[str]:
    longest_first = sorted(renamed("phrase"), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(longest_first)})\b")


@cache
def _hand() -> re.Pattern[str]:
    """``with the left hand``, ``right gripper``, ``both hands``, ``the left and right hands``."""
    side = r"(?P<side>left|right|both|two)"
    return re.compile(
        r"(?:\b(?:with|using|by|in|from|to|of|into) )?(?:\b(?:the|your|his|her|their|its|my|a|only) )*"
        rf"\b{side}(?P<second> and (?:the )?(?:left|right))? (?:{'|'.join(sorted(words('hand')))})\b"
    )


def _marked(match: re.Match[str]) -> str:
    return f" §{'both' if match['second'] or match['side'] == 'two' else match['side']} "


def _tokens(text: str) -> list[str]:
    plain = re.sub(r"['\u2019]s\b|['\u2019§]", "", text.casefold())
    plain = re.sub(r"[_\-\s]+", " ", plain.replace("&", " and "))
    plain = _hand().sub(_marked, _phrases().sub(lambda match: renamed("phrase")[match[0]], plain))
    return re.findall(r"§?[^\W_]+|[;,.:/]", plain)


def _split(tokens: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each clause, and the word that links it to the one before: and, to (its aim), by (its means), or none."""
    link, current = "", list[str]()
    for i, token in enumerate(tokens):
        ends = token in _ENDS or (token in _LINKS and _verb_follows(tokens, i + 1, current))
        if not ends:
            current.append(_LINKS.get(token, token))
            continue
        if _means_something(current):
            yield link, current
        link, current = _LINKS.get(token, ""), []
    if _means_something(current):
        yield link, current


_ENDS = frozenset({";", ".", "then", "while", "before", "after"})
_LINKS = {",": "and", ":": "and", "/": "and", "and": "and", "to": "to", "by": "by"}


def _means_something(tokens: list[str]) -> bool:
    return any(token not in words("nothing") and not token.startswith("§") for token in tokens)


def _verb_follows(tokens: list[str], start: int, before: list[str]) -> bool:
    """Whether tokens from ``start`` begin with a verb; if it may be a noun too, what stands around it tells."""
    i = start
    while i < len(tokens) and (tokens[i] in words("adverb") or tokens[i] in words("agent") or tokens[i][0] == "§"):
        i += 1
    verb = verb_forms().get(tokens[i]) if i < len(tokens) else None
    if verb is None:
        return False
    following = tokens[i + 1] if i + 1 < len(tokens) else ""
    if tokens[i] != verb or not is_noun(verb) or f"{verb}_{following}" in verb_classes():
        return True
    determined = following in words("article") or following in words("pronoun")
    return determined or not any(is_noun(singular(token)) for token in before[1:])


# --- from a clause's tokens to its slots ---


def _clause(tokens: list[str]) -> Clause:
    sides = {token[1:] for token in tokens if token[0] == "§"}
    hands = "both" if len(sides) > 1 else next(iter(sides), "")
    tokens = [token for token in tokens if token[0] != "§"]
    at, verb = _find_verb(tokens)
    before, rest = (tokens[:at], tokens[at + 1 :]) if at >= 0 else ([], tokens)
    subject = _thing(tuple(token for token in before if token not in words("agent"))) if before else None
    particle = rest and (not subject or _ends("".join(rest[1:2])))  # not: the cup was put on the table
    if verb and particle and f"{verb}_{rest[0]}" in verb_classes():
        verb, rest = f"{verb}_{rest[0]}", rest[1:]
    verbs, slots = _slots(verb, rest)
    things, sources, goals = slots["thing"] or ([subject] if subject else []), slots["source"], slots["place"]
    if not things and words("pronoun").isdisjoint(rest):  # look at the screen
        things, goals = goals, []
    if "take" in verb_classes().get(verb, ()):  # pick up the cup on the table
        sources, goals = sources + goals, []
    return _with_lid(Clause(verbs, tuple(things), tuple(sources), tuple(goals), tuple(slots["tool"]), hands))


def _find_verb(tokens: list[str]) -> tuple[int, str]:
    """The position of the verb and what it is; (-1, '') where the clause is a mere noun phrase."""
    forms = verb_forms()
    first = next((i for i, token in enumerate(tokens) if token not in _before_verb()), -1)
    if first < 0:
        return -1, ""
    determined = first > 0 and tokens[first - 1] in words("article")
    if tokens[first] in forms and not determined:
        return first, forms[tokens[first]]
    for i in range(first + 1, len(tokens)):
        inflected = forms.get(tokens[i], tokens[i]) != tokens[i] and not is_noun(tokens[i])
        if inflected or (tokens[i] in forms and tokens[i - 1] in words("be")):
            return i, forms[tokens[i]]
    word = tokens[first]
    if determined or is_noun(singular(word)) or word in words("colour"):
        return -1, ""
    return first, re.sub(r"(?<=\w\w\w)(?:ing|ed|s)$", "", word)


@cache
def _before_verb() -> frozenset[str]:
    return words("adverb") | words("agent") | words("article")


def _slots(verb: str, tokens: list[str]) -> tuple[tuple[str, ...], dict[str, list[Thing]]]:
    """The names of the action and the noun phrases by slot, from what follows the verb."""
    slots: dict[str, list[Thing]] = {"thing": [], "source": [], "place": [], "tool": [], "near": []}
    verbs, slot, phrase = [verb] if verb else [], "thing", list[str]()
    kinds = verb_classes().get(verb, frozenset())
    for i, token in enumerate([*tokens, ""]):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        role = "" if i and tokens[i - 1] in words("article") and token in words("spot") else _role(token)
        if token == "and" and not any(is_noun(singular(word)) for word in phrase):
            continue
        if token and not role:
            if token in words("resultative") and "hold" not in kinds and _ends(following):
                verbs += [v for v in _RESULT.get(token, ()) if v not in verbs]
            phrase.append(token)
            continue
        _add(slots, slot, phrase)
        phrase = []
        if role == "particle" or (role in ("place", "source") and _ends(following)):
            if f"{verb}_{token}" in verb_classes():
                verbs[0] = f"{verb}_{token}"
            slot = slot if role == "particle" else "near"
        elif role == "attribute":
            slot = _owner(slots, slot)
        elif role and role != "and":
            slot = role
            verbs += [v for v, (classes, preps) in _DIRECTED.items() if token in preps and kinds & classes]
    return tuple(verbs), slots


_RESULT = {"open": ("open",), "closed": ("close",), "shut": ("close",), "apart": ("separate",), "dry": ("dry",)}
"""``push the drawer closed``: how the action is called by its result."""

_DIRECTED = {
    "remove": (frozenset({"pull", "lift", "take", "slide"}), ("off",)),
    "insert": (frozenset({"push", "place", "slide", "lower", "drop"}), ("into", "inside")),
}
"""``pull the tube out of the tyre``: how the action is called by its direction."""


def _role(token: str) -> str:
    return _roles().get(token, "")


@cache
def _roles() -> dict[str, str]:
    """Words that end a noun phrase to what they begin; a word of several roles has the last one."""
    roles = ("and", "particle", "attribute", "tool", "near", "source", "place")
    return {word: role for role in roles for word in words(role)}


def _ends(token: str) -> bool:
    """Whether a noun phrase ends before ``token``."""
    return not token or bool(_role(token)) or token in words("adverb")


def _owner(slots: dict[str, list[Thing]], slot: str) -> str:
    """The slot of what follows ``of``; ``piece``, ``top`` and the like give way to it, ``left of`` is no place."""
    if not slots[slot]:
        return slot
    last = slots[slot][-1].head
    if last in ("left", "right"):
        slots[slot].pop()
        return "near"
    if last in words("partitive") or last in words("spot"):
        slots[slot].pop()
        return slot
    return slot if slot == "thing" else "near"


def _add(slots: dict[str, list[Thing]], slot: str, tokens: list[str]) -> None:
    thing = _thing(tuple(tokens)) if tokens else None
    if thing and (slot == "thing" or thing.head != "hand"):
        slots[slot].append(thing)


@lru_cache(maxsize=1 << 16)
def _thing(tokens: tuple[str, ...]) -> Thing | None:
    skipped = words("article") | words("adverb") | words("pronoun") | words("resultative")
    kept = [token for token in tokens if token not in skipped and not token.isdigit()]
    while len(kept) > 1 and kept[-1] in ("left", "right"):
        kept.pop()
    if not kept:
        return None
    nouns = [singular(token) for token in kept]
    colours = frozenset(kept) & words("colour")
    head = nouns.pop()
    kinds = frozenset(noun for noun in nouns if is_noun(noun) or is_noun(f"{noun}_{head}"))
    return Thing(head, kinds - colours - words("material"), colours)


def _with_lid(clause: Clause) -> Clause:
    """``screw the lid onto the jar`` closes the jar, ``remove the lid`` opens something."""
    if not clause.things or clause.things[0].head not in words("lid"):
        return clause
    onto = any(goal.head not in words("surface") for goal in clause.goals)
    if clause.classes & {"remove", "unscrew", "rotate"}:
        return replace(clause, verbs=(*clause.verbs, "open"))
    if "screw" in clause.classes or (onto and clause.classes & {"place", "push", "attach", "insert"}):
        return replace(clause, verbs=(*clause.verbs, "close"))
    return clause


def _in_other_words(clause: Clause, aim: Clause) -> Clause:
    """``push the drawer inward to close it``: one action with two names; ``use the saw to cut the plank``: a tool."""
    hands = clause.hands or aim.hands
    if clause.verbs == ("use",):
        return replace(aim, tools=clause.things + aim.tools, hands=hands)
    return Clause(
        tuple(dict.fromkeys(clause.verbs + aim.verbs)),
        clause.things + aim.things,
        clause.sources + aim.sources,
        clause.goals + aim.goals,
        clause.tools + aim.tools,
        hands,
    )
