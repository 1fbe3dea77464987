"""Words beside a formula: which are units, which only name things, and which change the value."""

import calendar
import re

from .normal_form import TEXT
from .numbers import number

_UNITS = """
    mm millimeter millimetre | cm centimeter centimetre | m meter metre | km kilometer kilometre |
    in inch inche | ft foot feet | yd yard | mi mile | mg milligram | g gram | kg kilogram | lb | oz
    ounce | s sec second | min minute | h hr hour | day | week | month | yr year | unit | base | ml
    milliliter millilitre | l liter litre | degree deg | radian rad | am | pm | percent | newton n |
    joule j | kj | watt w | kw | kwh | pa pascal | kpa | volt v | ampere a amp | ohm | kelvin k | ev
    | mev | tesla t | amu | cal calorie | kcal | rpm | atm | bar | db | dollar usd | euro eur |
    pound gbp | yen jpy | cent | celsius c | fahrenheit f | hz | mol
"""
UNITS = {name: names.split()[0] for names in _UNITS.split("|") for name in names.split()}

_CHANGING = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety dozen
    hundred thousand million billion trillion lakh crore half halve third quarter tenth hundredth
    thousandth double triple twice thrice squared cubed square cube root minus plus times divided
    negative positive not no never none nor isn doesn wrong incorrect false fails except but without
    unless unlike least most more less fewer greater larger smaller over under above below up than
    between from to until before after at was maybe perhaps possibly either neither otherwise else
    undefined opposite inverse reciprocal factorial modulo mod power pi sqrt infinity infinite
    exceed excluding multiple divisible complement outside derivative integral conjugate absolute
    alternatively sum product difference quotient doubled tripled halved repeating recurring neg
    nope applied
"""
CHANGING = frozenset([*_CHANGING.split(), *map(str.lower, calendar.month_name[1:])])
"""Words that change the value of what stands beside them, also with an s at their end."""
SPELLED = _CHANGING.split()[:21]  # zero to twenty
_CHANGING_CHINESE = re.compile(
    r"[负不非少多于至万百十亿億兆除外无無没错零两]|千(?![克米瓦])|半(?!径)|一(?!共)"
    r"|[二三四五六七八九](?![角边次])|根号|平方\Z"
)
_NOUNS = {"square", "sq", "cubic", "per", "people", "students", "ways"}
_NO_NOUNS = """
    and for where when sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log exp lim max
    gcd lcm det cis alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron rho
    sigma tau upsilon phi chi psi omega uvw score gross grand myriad mil mio thou binary octal hex
    hexadecimal imaginary percent percentage
"""
_NOT_NAMING = CHANGING | {*_NO_NOUNS.split(), *map(str.lower, calendar.month_abbr[1:])}
# `xyz` and `abc` are products; milliards and fifths are numbers
_NOUN = re.compile(
    r"of|(?=.*[aeiou])(?!a[bcdxyz]+\Z|mill|.*illi|.*(?:[fhx]|[ev]en|nin|ie)ths?\Z)[a-z]{3,}"
)
_UNIT = rf"\b((?:{'|'.join(UNITS)})s?)\b"
_SPELLINGS = {
    r"\.|\{": "",
    " per ": "/",
    "mph": "mile/hour",
    "kmh|kph": "km/hour",
    r" ?([a-z]+)\^-(\d)": r"/\1^\2",  # s^-1
    rf"\b(?:square|sq) +{_UNIT}|{_UNIT} +squared": r"\1\2^2",
    rf"\b(?:cubic|cu) +{_UNIT}|{_UNIT} +cubed": r"\1\2^3",
    r"\^1\b": "",
}
_PIECE = re.compile(rf"{TEXT.pattern}(?:\^\{{?(-?\d)\}}?)?")
_JOINT = re.compile(r"[ ,]*(?:and|or|if|for|where|when)[ ,]*", re.IGNORECASE)
_SUFFIXES = {
    "base^": re.compile(r"(?:(?<=\d)|(?<=\d[A-F]))_([2-9]|[1-3]\d)$"),
    "degree ": re.compile(r"(?<=\d) ?\^\\circ ?([CF]?)$"),
    # `2mg` is a product; a letter stands apart: `5 m^2`, not `5m^2`; `5 N` are newtons, not `5 n`
    "": re.compile(
        r"(?:(?<=[\d})])|(?<=\\pi ))(?: |(?=[A-Za-z]{2})(?!m[gl]$))(?![anjwvkt](?![A-Za-z.]))"
        r"([A-Za-z][A-Za-z.]*(?:[ /][A-Za-z.]+|\^(?:\d|\{\d\}))*)$"
    ),
}
_VARIABLE = re.compile(r"(?<![\\A-Za-z])(?:[a-z]|(?<!\d)[A-Z])")  # \pi r^2 h has no hours


def apart(form: str) -> tuple[str, list[str]]:
    """Return a normal form without its words, and the words; words that join values stay in it."""
    texts: list[str] = []

    def take(piece: re.Match[str]) -> str:
        before, behind = form[: piece.start()].rstrip()[-1:], form[piece.end() :].lstrip()[:2]
        is_cell = before in "({," and (behind[:1] in ")}," or behind == r"\\")
        if _JOINT.fullmatch(piece[1]) or is_cell:
            return piece[0]
        is_applied = behind[:1] == "(" and piece[1][-1:].isalpha()  # \text{gcd}(1, 2)
        texts.append(piece[1] + (f"^{piece[2]}" if piece[2] else "") + " applied" * is_applied)
        return " "

    core = _PIECE.sub(take, form).strip()
    for name, suffix in _SUFFIXES.items():
        match = suffix.search(core)
        if not match or (name != "degree " and _VARIABLE.search(core[: match.start()])):
            continue
        behind, is_number = _words(match[1]), number(core[: match.start()]) is not None
        is_counted = is_number and match[0][0] == " " and all(map(_is_naming, behind))  # 18 eggs
        if name or is_counted or all(_is_changing(x) or x in _NOUNS or _unit(x) for x in behind):
            texts.insert(0, name + match[1])
            core = core[: match.start()].strip()
    texts += ["percent"] * core.endswith("%")  # a unit too, though it stays in the number
    return core or form, [word for text in texts for word in _words(text)]


def _words(text: str) -> list[str]:
    """Return words in one spelling: `cm^2` for `square cm`, `/s` for `s^-1`, `am` for `a.m.`."""
    text = text.lower()
    for pattern, new in _SPELLINGS.items():
        text = re.sub(pattern, new, text)
    return re.findall(r"[^\W\d_]+(?:\^-?\d+)?|\d+|/", text)


def _is_changing(word: str) -> bool:
    is_latin = bool({word, word.removesuffix("s")} & CHANGING) or word.isdigit()
    return is_latin or _CHANGING_CHINESE.search(word) is not None


def _is_naming(word: str) -> bool:
    is_other = bool({word, word.removesuffix("s")} & _NOT_NAMING)
    return not is_other and bool(_unit(word) or _NOUN.fullmatch(word))


def _unit(word: str) -> str | None:
    """Return the unit that a word is, in one spelling and with its power; None if it is no unit."""
    name, _, power = word.partition("^")
    unit = "/" if word == "/" else UNITS.get(name) or UNITS.get(name.removesuffix("s"))
    return unit and unit + (f"^{power}" if power else "")


def words_against(gold: list[str], answer: list[str]) -> str | None:
    """Return `"words"` if they change the value, `"units"` if they are other units, else None.

    Units may be left out, and things that are no units may be named.
    """
    if {*filter(_is_changing, gold)} != {*filter(_is_changing, answer)}:
        return "words"
    units, claimed = ([unit for unit in map(_unit, words) if unit] for words in (gold, answer))
    return "units" if {*units} - {"/"} and answer and units != claimed else None
