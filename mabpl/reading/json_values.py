"""JSON held against a type, with every fault and its path.

The short way is msgspec's typed decoder. What it refuses, or where a key may be given twice (which it does not see), is
read again as plain JSON and held against the type, value by value.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

S = TypeVar("S")

CLOCK_HINT = "write seconds"
"""The advice on a clock string such as 0:12."""

_KEYS = re.compile(r'\.?([\w-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')
_PLAIN_KEY = re.compile(r"[\w-]+", re.ASCII)


class Fault(NamedTuple):
    """A broken ``rule`` at ``field`` (a path such as segments[3].end_s)."""

    rule: str
    field: str | None
    message: str
    hint: str = ""


class Object(dict[str, Any]):
    """A JSON object that remembers which keys were given more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            seen: set[str] = set()
            self.repeated = list(dict.fromkeys(k for k, _ in pairs if k in seen or seen.add(k)))  # type: ignore[func-returns-value]


class Read(NamedTuple, Generic[S]):
    """``value`` is None where ``faults`` is not empty; ``raw``: the JSON as it is, where the long way was gone."""

    value: S | None
    raw: Any
    faults: list[Fault]


_ANY = msgspec.json.Decoder()


class Reader(Generic[S]):
    """Reads JSON texts as ``kind``: a msgspec struct that, written again, has no key that was not read."""

    def __init__(self, kind: type[S]) -> None:
        assert _omits_defaults(inspect.type_info(kind)), f"{kind} writes defaults"
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._encoder = msgspec.json.Encoder()
        self._type = inspect.type_info(kind)

    def read(self, data: bytes) -> Read[S]:
        try:
            value = self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return self._read_thoroughly(data)
        return Read(value, None, []) if self._hold_nothing_else([value], data) else self._read_thoroughly(data)

    def read_many(self, lines: list[bytes], *, further_keys: bool = False) -> list[S] | None:
        """The values of ``lines``; None where one of them has to be read by itself: for a fault, or for keys that the
        type does not know. ``further_keys``: there may be such keys, as long as no key is repeated."""
        try:
            values = list(map(self._decoder.decode, lines))
        except (msgspec.DecodeError, RecursionError):
            return None
        data = b"\n".join(lines)
        if self._hold_nothing_else(values, data):
            return values
        return values if further_keys and self._hold_nothing_else([*map(_ANY.decode, lines)], data) else None

    def _hold_nothing_else(self, values: list[Any], data: bytes) -> bool:
        """Whether all strings of ``data`` are in ``values``: a repeated or unknown key adds at least two quotes."""
        return (
            data.count(b'"') == self._encoder.encode_lines(values).count(b'"')
            and b"\\u0022" not in data
            and (data.isascii() or _is_utf8(data))
        )

    def _read_thoroughly(self, data: bytes) -> Read[S]:
        raw, fault = loads(data)
        if fault is not None:
            return Read(None, None, [fault])
        faults: list[Fault] = []
        check(raw, self._type, "", faults)
        return Read(None if faults else msgspec.convert(raw, self._kind, strict=False), raw, faults)


def _omits_defaults(kind: Any) -> bool:
    """Whether no struct in ``kind`` writes the default of a field that was not given."""
    if isinstance(kind, inspect.StructType):
        omits = kind.cls.__struct_config__.omit_defaults
        return all(
            (
                f.required
                or omits
                or f.default_factory is msgspec.UNSET
                or f.default is msgspec.UNSET
                or f.default is msgspec.NODEFAULT
            )
            and _omits_defaults(f.type)
            for f in kind.fields
        )
    parts = [getattr(kind, name, None) for name in ("type", "item_type", "value_type")]
    return all(map(_omits_defaults, [*filter(None, parts), *getattr(kind, "types", ())]))


def loads(data: bytes) -> tuple[Any, Fault | None]:
    """The JSON value, its objects as :class:`Object`; or why it is none."""
    try:
        return json.loads(data.decode(), object_pairs_hook=Object, parse_constant=float, parse_int=_integer), None
    except UnicodeDecodeError as error:
        return None, Fault("encoding", None, f"{_where(data, error.start, 'byte')} is not UTF-8")
    except RecursionError:
        return None, Fault("invalid-json", None, "is nested too deeply")
    except json.JSONDecodeError as error:
        at = f"character {error.pos + 1}" if error.lineno == 1 else f"line {error.lineno}, character {error.colno}"
        return None, Fault("invalid-json", None, f"{error.msg} at {at}")


def encodable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold (half a surrogate pair) written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def at_key(path: str, key: str) -> str:
    """The path of ``key`` in the object at ``path``; a key that is no plain word stands in brackets, as JSON."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key)}]"


def keys_of(path: str) -> list[str | int]:
    """The keys and positions that lead to ``path``, as :func:`at_key` writes it."""
    return [
        int(index) if index else json.loads(quoted) if quoted else plain for plain, index, quoted in _KEYS.findall(path)
    ]


def shown(value: Any) -> str:
    """A JSON value in a message, cut short."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return reprlib.repr(value)


def _where(data: bytes, position: int, unit: str) -> str:
    line = data.count(b"\n", 0, position)
    start = data.rfind(b"\n", 0, position) + 1
    at = f"{unit} {position - start + 1}"
    return f"line {line + 1}, {at}" if line else f"{at} of the line"


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 300 else float(digits)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_NAMES: dict[type[inspect.Type], str] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.ListType: "a list",
    inspect.StrType: "a string",
    inspect.FloatType: "a number",
    inspect.IntType: "a whole number",
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
}


def check(
    value: Any,
    kind: inspect.Type,
    path: str,
    faults: list[Fault],
    *,
    value_rule: str = "wrong-value",
    nullable: bool = False,
) -> None:
    """Holds ``value`` (of :func:`loads`) against ``kind`` and appends every fault.

    ``value_rule``: the rule that a value which is none of a literal's breaks. ``nullable``: null was possible too.
    """
    while True:  # down to what the value itself must be
        if type(kind) is inspect.Metadata:
            kind = kind.type
        elif type(kind) is inspect.UnionType:
            nullable = nullable or any(type(one) is inspect.NoneType for one in kind.types)
            kind = kind.types[0]
        else:
            break
    if value is None and nullable:
        return
    json_type, inside = _INSIDE.get(type(kind), (None, None))
    if inside is not None and json_type is not None and isinstance(value, json_type):
        inside(value, kind, path, faults, value_rule)
    elif isinstance(kind, inspect.AnyType):
        _check_any(value, path, faults)
    elif isinstance(kind, inspect.LiteralType):
        _check_literal(value, kind, path, faults, value_rule, nullable)
    elif isinstance(kind, inspect.FloatType | inspect.IntType) and type(value) in (int, float):
        _check_number(value, kind, path, faults)
    elif not (isinstance(kind, inspect.BoolType) and isinstance(value, bool)) and not (
        isinstance(kind, inspect.NoneType) and value is None
    ):
        expected = _NAMES[type(kind)] + (" or null" if nullable else "")
        faults.append(
            Fault("wrong-type", path or None, f"is {shown(value)}, expected {expected}", _advice(value, kind))
        )


def _check_literal(
    value: Any, kind: inspect.LiteralType, path: str, faults: list[Fault], rule: str, nullable: bool
) -> None:
    if isinstance(value, dict | list) or value not in kind.values:
        allowed = [*map(str, kind.values), *(["null"] if nullable else [])]
        known = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        faults.append(Fault(rule, path, f"is {shown(value)}, expected {known}"))


def _check_struct(value: Object, kind: inspect.StructType, path: str, faults: list[Fault], value_rule: str) -> None:
    prefix = f"{path}." if path else ""
    found = 0
    for field in kind.fields:
        name = field.encode_name
        if name in value.repeated:
            faults.append(Fault("duplicate-key", prefix + name, "is given more than once"))
        if name in value:
            found += 1
            check(value[name], field.type, prefix + name, faults, value_rule=value_rule)
        elif field.required:
            faults.append(Fault("missing-field", prefix + name, "is missing"))
    if kind.forbid_unknown_fields and found < len(value):
        unknown = value.keys() - {field.encode_name for field in kind.fields}
        paths = sorted(at_key(path, encodable(name)) for name in unknown)
        faults += [Fault("unknown-key", where, "is no key of the format") for where in paths]


def _check_dict(value: Object, kind: inspect.DictType, path: str, faults: list[Fault], value_rule: str) -> None:
    for name, item in value.items():
        where = at_key(path, encodable(name))
        if name in value.repeated:
            faults.append(Fault("duplicate-key", where, "is given more than once"))
        check(name, kind.key_type, where, faults, value_rule=value_rule)
        check(item, kind.value_type, where, faults, value_rule=value_rule)


def _check_list(value: list[Any], kind: inspect.ListType, path: str, faults: list[Fault], value_rule: str) -> None:
    for index, item in enumerate(value):
        check(item, kind.item_type, f"{path}[{index}]", faults, value_rule=value_rule)


def _check_any(value: Any, path: str, faults: list[Fault]) -> None:
    """What no type tells of, but nobody could write again."""
    if isinstance(value, Object):
        for name, item in value.items():
            where = at_key(path, encodable(name))
            if name in value.repeated:
                faults.append(Fault("duplicate-key", where, "is given more than once"))
            _check_any(item, where, faults)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_any(item, f"{path}[{index}]", faults)
    elif isinstance(value, str):
        _check_surrogates(value, path, faults)
    elif isinstance(value, float) and not math.isfinite(value):
        faults.append(Fault("non-finite", path, f"is {value}, expected a finite number"))


def _check_string(value: str, kind: inspect.StrType, path: str, faults: list[Fault], _: str) -> None:
    if len(value) < (kind.min_length or 0):
        faults.append(Fault("wrong-type", path, "is empty, expected a non-empty string"))
    _check_surrogates(value, path, faults)


_INSIDE: dict[type[inspect.Type], tuple[type, Callable[[Any, Any, str, list[Fault], str], None]]] = {
    inspect.StructType: (Object, _check_struct),
    inspect.DictType: (Object, _check_dict),
    inspect.ListType: (list, _check_list),
    inspect.StrType: (str, _check_string),
}
"""What a value of a type is in Python, and how its inside is checked."""


def _check_surrogates(value: str, path: str, faults: list[Fault]) -> None:
    if not value.isascii() and encodable(value) != value:
        faults.append(Fault("encoding", path, "holds half a surrogate pair (\\ud800 to \\udfff)"))


def _check_number(value: float, kind: inspect.FloatType | inspect.IntType, path: str, faults: list[Fault]) -> None:
    if not math.isfinite(value):
        faults.append(Fault("non-finite", path, f"is {value}, expected a finite number"))
    elif isinstance(kind, inspect.IntType) and (value != int(value) or abs(value) > 2**53):
        faults.append(Fault("wrong-type", path, f"is {shown(value)}, expected a whole number"))
    elif (kind.gt is not None and value <= kind.gt) or (kind.ge is not None and value < kind.ge):
        bound = f"above {kind.gt:g}" if kind.gt is not None else f"of {kind.ge} or more"
        faults.append(Fault("wrong-type", path, f"is {shown(value)}, expected a number {bound}"))
    elif (kind.lt is not None and value >= kind.lt) or (kind.le is not None and value > kind.le):
        bound = f"below {kind.lt:g}" if kind.lt is not None else f"of {kind.le} or less"
        faults.append(Fault("wrong-type", path, f"is {shown(value)}, expected a number {bound}"))


def _advice(value: Any, kind: inspect.Type) -> str:
    if not isinstance(kind, inspect.FloatType) or not isinstance(value, str):
        return ""
    if re.fullmatch(r"\s*(\d+:){1,2}\d+([.,]\d+)?\s*", value):
        return CLOCK_HINT
    return "write the number without quotes" if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", value) else ""
