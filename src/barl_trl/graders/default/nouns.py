r"""Words beside a formula: which are units, which only name things, and which change the value.

The parser drops words: `5\text{ million}` is 5 to it, and kilograms are centimetres.
"""

import re
from typing import NamedTuple

from ..normal_form import TEXT


def _listed(names: str) -> frozenset[str]:
    return frozenset(names.split())


_UNITS = """
    mm millimeter millimetre | cm centimeter centimetre | m meter metre | km kilometer kilometre
    in inch inche | ft foot feet | yd yard | mi mile | mg milligram | g gram | kg kilogram | lb
    oz ounce | s sec second | min minute | h hr hour | day | week | month | yr year | unit | base
    ml milliliter millilitre | l liter litre | degree deg | radian rad | am | pm | percent
    dollar usd | euro eur | pound gbp | yen jpy | cent | celsius c | fahrenheit f | hz | mol
"""
UNITS = {name: names.split()[0] for names in re.split(r"[|\n]", _UNITS) for name in names.split()}
"""Name in the singular -> unit."""
_PRODUCTS = _listed("mg ml")  # of variables, as `2mg` is

CHANGING = _listed(
    """zero one two three four five six seven eight nine ten eleven twelve dozen hundred thousand
    million billion trillion half halves third thirds quarter quarters double triple twice squared
    cubed square cube root minus plus times divided negative positive not no never none nor isn
    wrong incorrect false except but without least most more less fewer greater larger smaller over
    under above below up than between from to until before after at was maybe perhaps
    possibly either neither undefined opposite inverse reciprocal factorial modulo mod power
    sum product difference quotient"""
)
"""Words that change what stands beside them."""

_PIECE = re.compile(rf"{TEXT.pattern}(?:\^\{{?(-?\d)\}}?)?")
_JOINT = re.compile(r"[ ,]*(?:and|or|if|for|where|when)[ ,]*")
_BARE = re.compile(
    r"(?:(?<=[\d})])|(?<=\\pi )) ?[A-Za-z][A-Za-z.]*(?:[ /][A-Za-z.]+|\^(?:\d|\{\d\}))*$"
)
_BASE = re.compile(r"(?<=\d)_(\d+)$|(?<=\d[A-F])_(\d+)$")
_DEGREE = re.compile(r"(?<=\d) ?\^\\circ ?([CF]?)$")
_AREA = re.compile(r"(square|sq|cubic|cu)\.? +([a-z]+)|([a-z]+) +(squared|cubed)")
_NOUN = _listed("square sq cubic per people students ways")
_SPEEDS = (("mph", "mile/hour"), ("kmh", "km/hour"), ("kph", "km/hour"), (" per ", "/"))


class Parts(NamedTuple):
    """An answer without its words, and the words, in lower case."""

    core: str
    words: list[str]


def apart(form: str) -> Parts:
    """Take the words off a normal form, but for those that join values."""
    said: list[str] = []

    def take(piece: re.Match[str]) -> str:
        before, behind = form[: piece.start()].rstrip()[-1:], form[piece.end() :].lstrip()[:1]
        is_value = before in "({," and behind in ")},\\"
        if _JOINT.fullmatch(piece[1].lower()) or is_value:
            return piece[0]
        said.append(piece[1] + (f"^{piece[2]}" if piece[2] else ""))
        return " "

    core = _PIECE.sub(take, form).strip()
    for pattern, name in ((_BASE, "base^"), (_DEGREE, "degree "), (_BARE, "")):
        found = pattern.search(core)
        if found and (name or _are_units(found[0])):
            said.insert(0, name + found[found.lastindex or 0])
            core = core[: found.start()].strip()
    if core.endswith("%"):  # a unit too, though it stays in the number
        said.append("percent")
    return Parts(core or form, [word for text in said for word in _words(text)])


def _words(text: str) -> list[str]:
    """`square cm` and `cm squared` are `cm^2`, `a.m.` is `am`."""
    text = text.lower().replace(".", "")
    for short, long in _SPEEDS:
        text = text.replace(short, long)

    def power(found: re.Match[str]) -> str:
        unit, word = found[2] or found[3], found[1] or found[4]
        return f"{unit}^{2 if word.startswith('s') else 3}" if _unit(unit) else found[0]

    return re.findall(r"[^\W\d_]+(?:\^-?\d+)?|\d+|/", _AREA.sub(power, text).replace("{", ""))


def _unit(word: str) -> str | None:
    name, _, power = word.partition("^")
    found = UNITS.get(name) or UNITS.get(name.removesuffix("s"))
    return found and found + (f"^{power}" if power else "")


def _are_units(text: str) -> bool:
    """Whether bare words are no variables. A letter stands apart: `5 m^2`, but not `5m^2`."""
    known = all(_unit(word) or word in CHANGING | _NOUN or word == "/" for word in _words(text))
    return known and (text[0] == " " or (text[1:2].isalpha() and text not in _PRODUCTS))


def words_against(gold: Parts, answer: Parts) -> str | None:
    """Return why the words of an answer cannot be those of the true one, None if they may.

    Words may be left out, and things may be named that are no units.

    Returns:
        `"words"` (they change the value) or `"units"` (kg for cm).
    """
    if _changing(gold.words) != _changing(answer.words):
        return "words"
    units, own = (_units(side.words) for side in (gold, answer))
    return "units" if units and answer.words and units != own else None


def _changing(words: list[str]) -> set[str]:
    return {word for word in words if word in CHANGING or word.isdigit()}


def _units(words: list[str]) -> list[str]:
    """Return the units among words, and `/` between two."""
    units = [_unit(word) or word for word in words if _unit(word) or word == "/"]
    return units if any(map(_unit, words)) else []
