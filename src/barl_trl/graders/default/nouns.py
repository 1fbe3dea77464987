r"""Words beside a formula: which are units, which only name things, and which change the value.

The parser drops words: `5\text{ million}` is 5 to it, and kilograms are centimetres.
"""

import re
from typing import NamedTuple

from ..normal_form import TEXT

_UNITS = """
    mm millimeter millimetre | cm centimeter centimetre | m meter metre | km kilometer kilometre
    in inch inche | ft foot feet | yd yard | mi mile | mg milligram | g gram | kg kilogram | lb
    oz ounce | s sec second | min minute | h hr hour | day | week | month | yr year | unit | base
    ml milliliter millilitre | l liter litre | degree deg | radian rad | am | pm | percent
    newton n | joule j | kj | watt w | kw | kwh | pa pascal | kpa | volt v | ampere a amp | ohm
    kelvin k | ev | mev | tesla t | amu | cal calorie | kcal | rpm | atm | bar | db
    dollar usd | euro eur | pound gbp | yen jpy | cent | celsius c | fahrenheit f | hz | mol
"""
UNITS = {name: names.split()[0] for names in re.split(r"[|\n]", _UNITS) for name in names.split()}
"""Name in the singular -> unit."""

_CHANGING = """
    zero one two three four five six seven eight nine ten eleven twelve dozen hundred thousand
    million billion trillion half halves third thirds quarter quarters double triple twice squared
    cubed square cube root minus plus times divided negative positive not no never none nor isn
    wrong incorrect false except but without least most more less fewer greater larger smaller over
    under above below up than between from to until before after at was maybe perhaps
    possibly either neither undefined opposite inverse reciprocal factorial modulo mod power
    tenth tenths hundredth hundredths thousandth thousandths thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen thirty forty fifty sixty seventy eighty ninety lakh crore thrice pi
    infinity infinite doesn exceeds excluding multiple multiples divisible sqrt complement
    outside derivative integral conjugate absolute alternatively else repeating recurring applied
    sum product difference quotient doubled tripled halved neg nope unless unlike otherwise fails
    january february march april june july august september october november december
"""
CHANGING = frozenset(_CHANGING.split())
"""Words that change what stands beside them."""
_CHANGING_CHINESE = re.compile(
    r"[负不非少多于至万百十亿億兆除外无無没错零两]|千(?![克米瓦])|半(?!径)|一(?!共)"
    r"|[二三四五六七八九](?![角边次])|根号|平方\Z"
)
_NOUNS = {"square", "sq", "cubic", "per", "people", "students", "ways"}

_PIECE = re.compile(rf"{TEXT.pattern}(?:\^\{{?(-?\d)\}}?)?")
_JOINT = re.compile(r"[ ,]*(?:and|or|if|for|where|when)[ ,]*", re.IGNORECASE)
_SUFFIXES = {
    "base^": re.compile(r"(?:(?<=\d)|(?<=\d[A-F]))_(\d+)$"),
    "degree ": re.compile(r"(?<=\d) ?\^\\circ ?([CF]?)$"),
    # `mg` and `ml` are products, as in `2mg`, and a letter stands apart: `5 m^2`, but not `5m^2`.
    # `5 N` are newtons, `5 n` is not.
    "": re.compile(
        r"(?:(?<=[\d})])|(?<=\\pi ))(?: |(?=[A-Za-z]{2})(?!m[gl]$))(?![anjwvkt](?![A-Za-z.]))"
        r"([A-Za-z][A-Za-z.]*(?:[ /][A-Za-z.]+|\^(?:\d|\{\d\}))*)$"
    ),
}
_VARIABLE = re.compile(r"(?<![\\A-Za-z])(?:[a-z]|(?<!\d)[A-Z])")  # \pi r^2 h has no hours
_AREA = re.compile(r"(square|sq|cubic|cu)\.? +([a-z]+)|([a-z]+) +(squared|cubed)")


class Parts(NamedTuple):
    """An answer without its words, and the words, in lower case."""

    core: str
    words: list[str]


def apart(form: str) -> Parts:
    """Take the words off a normal form, but for those that join values."""
    said: list[str] = []

    def take(piece: re.Match[str]) -> str:
        before, behind = form[: piece.start()].rstrip()[-1:], form[piece.end() :].lstrip()[:2]
        is_cell = before in "({," and (behind[:1] in ")}," or behind == r"\\")
        if _JOINT.fullmatch(piece[1]) or is_cell:  # what joins values, or is one
            return piece[0]
        is_applied = behind[:1] == "(" and piece[1][-1:].isalpha()  # \text{gcd}(1, 2)
        said.append(piece[1] + (f"^{piece[2]}" if piece[2] else "") + " applied" * is_applied)
        return " "

    core = _PIECE.sub(take, form).strip()
    for name, suffix in _SUFFIXES.items():
        found = suffix.search(core)
        if found and name != "degree " and _VARIABLE.search(core[: found.start()]):
            continue
        is_unit = found and (name or all(map(_is_known, _words(found[1]))))
        if found and is_unit:
            said.insert(0, name + found[1])
            core = core[: found.start()].strip()
    if core.endswith("%"):  # a unit too, though it stays in the number
        said.append("percent")
    return Parts(core or form, [word for text in said for word in _words(text)])


def _words(text: str) -> list[str]:
    """`square cm` is `cm^2`, `s^-1` is `/s`, `a.m.` is `am`, `mph` is `mile/hour`."""
    text = text.lower().replace(".", "").replace(" per ", "/").replace("mph", "mile/hour")
    text = re.sub("kmh|kph", "km/hour", text)
    text = re.sub(r" ?([a-z]+)\^-(\d)", r"/\1^\2", text).replace("^1", "")  # s^-1, cm^-3

    def power(found: re.Match[str]) -> str:
        unit, word = found[2] or found[3], found[1] or found[4]
        return f"{unit}^{2 if word.startswith('s') else 3}" if _unit(unit) else found[0]

    return re.findall(r"[^\W\d_]+(?:\^-?\d+)?|\d+|/", _AREA.sub(power, text).replace("{", ""))


def _unit(word: str) -> str | None:
    name, _, power = word.partition("^")
    found = UNITS.get(name) or UNITS.get(name.removesuffix("s"))
    return found and found + (f"^{power}" if power else "")


def _is_known(word: str) -> bool:
    return word == "/" or word in CHANGING | _NOUNS or _unit(word) is not None


def words_against(gold: Parts, answer: Parts) -> str | None:
    """Return why the words of an answer cannot be those of the true one, None if they may.

    Words may be left out, and things may be named that are no units.

    Returns:
        `"words"` (they change the value) or `"units"` (kg for cm).
    """
    if _changing(gold.words) != _changing(answer.words):
        return "words"
    units, own = _units(gold.words), _units(answer.words)
    return "units" if units and answer.words and units != own else None


def _changing(words: list[str]) -> set[str]:
    return {w for w in words if w in CHANGING or w.isdigit() or _CHANGING_CHINESE.search(w)}


def _units(words: list[str]) -> list[str]:
    """Return the units among words, and `/` between two."""
    units = [unit for word in words if (unit := "/" if word == "/" else _unit(word))]
    return units if any(map(_unit, words)) else []
