r"""Prompts with MATH-like true answers, and rollouts of which it is known which are right.

The mix is our own. It follows roughly what the true answers of the MATH test set look like: 60 %
integers, 15 % fractions and decimals, 8 % radicals and multiples of pi, 6 % points, lists,
intervals and sets, 6 % expressions and equations, 3 % words and choices, 2 % matrices, complex
numbers and units. No problem, answer or completion is copied from a data set or made by a model.

A kind of answer writes some integers in several forms, the usual one of the true answers first. A
prompt has a true value and three wrong ones: one of the integers is another (a sign, a summand, a
bracket). Prompts are easy and hard (beta distribution, mean 0.55); a right rollout has the true
value, a wrong one the likely, the less likely or the rare wrong value (6 : 3 : 1), so that wrong
rollouts often agree. A quarter of them, right or wrong, write their value in another form. 4 % do
not box their answer, and 2 % end in the middle of the box. Around the answer stands a solution of
several hundred characters: sentences and formulas drawn from a list, about numbers of the prompt's
own, and in 10 % of them an earlier box with one of the prompt's values. No completion occurs twice;
short true answers do, as in MATH.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from math import gcd
from string import Template
from typing import NamedTuple

MEAN_ACCURACY = 0.55
OTHER_FORM = 0.25
UNBOXED = 0.04
TRUNCATED = 0.02
EARLIER_BOX = 0.1
WRONG_VALUES = (6, 3, 1)

Form = str
Forms = list[Form]
"""Ways to write a value. The first is the usual one, and differs between different values."""

SQUAREFREE = (2, 3, 5, 6, 7, 10, 11, 13, 15, 17)
NAMES = ("Evelyn", "Carla", "Navin", "Brian", "Ashley", "Monica", "Tom", "Kevin")
WORDS = ("even", "odd", "ellipse", "parabola", "hyperbola", "circle", "Monday", "Friday")


class Rollout(NamedTuple):
    """A completion, and which of the prompt's values its closed last box holds."""

    completion: str
    value: int | None
    """0 is the true one; None without such a box."""
    answer: str
    """What stands in the box, or would."""


class Prompt(NamedTuple):
    """A true answer and the rollouts of its prompt."""

    gold: str
    rollouts: list[Rollout]

    def count_hypotheses(self) -> int:
        """Number of different values, the true one included, that the rollouts arrive at."""
        return len({0, *(rollout.value for rollout in self.rollouts if rollout.value is not None)})


class Kind(NamedTuple):
    """A kind of answer: percentage among the true ones, how it is written, ranges of integers."""

    percent: float
    write: Callable[..., Forms | None]
    """None where the integers do not make an answer of this kind, such as a denominator of 0."""
    ranges: tuple[tuple[int, int], ...]


def make_prompts(number: int, rollouts: int, seed: int) -> list[Prompt]:
    """Return prompts with their rollouts; the same ones for the same arguments."""
    rng = random.Random(seed)
    kinds = rng.choices(KINDS, [kind.percent for kind in KINDS], k=number)
    return [_prompt(rng, kind, rollouts) for kind in kinds]


def _prompt(rng: random.Random, kind: Kind, rollouts: int) -> Prompt:
    values = _values(rng, kind)
    accuracy = rng.betavariate(2 * MEAN_ACCURACY, 2 * (1 - MEAN_ACCURACY))
    numbers = {name: rng.randint(2, 60) for name in "abcd"}
    made = []
    for _ in range(rollouts):
        is_right = rng.random() < accuracy
        value = 0 if is_right else rng.choices((1, 2, 3), WRONG_VALUES)[0]
        usual, *others = values[value]
        answer = rng.choice(others) if rng.random() < OTHER_FORM else usual
        ending, is_closed = _ending(rng, answer)
        # Without a box at the end, an earlier one would be the last, and so the answer.
        guesses = [forms[0] for forms in values] if r"\boxed{" in ending else []
        reasoning = _reasoning(rng, numbers, guesses)
        made.append(Rollout(f"{reasoning}\n\n{ending}", value if is_closed else None, answer))
    return Prompt(values[0][0], made)


def _values(rng: random.Random, kind: Kind) -> list[Forms]:
    """The true value and three wrong ones near it, or near one of them."""
    found: dict[Form, Forms] = {}
    integers: list[list[int]] = []
    while len(found) <= len(WRONG_VALUES):
        if found:
            drawn = [*rng.choice(integers)]
            i = rng.randrange(len(drawn))
            drawn[i] = rng.choice([-drawn[i], *(drawn[i] + change for change in (-2, -1, 1, 2))])
        else:
            drawn = [rng.randint(*bounds) for bounds in kind.ranges]
        forms = kind.write(*drawn)
        if forms and forms[0] not in found:
            found[forms[0]] = forms
            integers.append(drawn)
    return [*found.values()]


def _reasoning(rng: random.Random, numbers: dict[str, int], guesses: Forms) -> str:
    sentences = [
        _Text(step).substitute(numbers | {"e": rng.randint(2, 999), "f": rng.randint(2, 99)})
        for step in rng.sample(_STEPS, rng.randint(5, 9))
    ]
    if guesses and rng.random() < EARLIER_BOX:
        guess = _Text(_GUESS).substitute(guess=rng.choice(guesses))
        sentences.insert(rng.randrange(len(sentences)), guess)
    return "\n\n".join([rng.choice(_OPENINGS), *sentences])


def _ending(rng: random.Random, answer: str) -> tuple[str, bool]:
    """The last sentence, and whether it has a closed box."""
    before, after = rng.choice(_ENDINGS)
    draw = rng.random()
    if draw < UNBOXED:
        return f"{before}{answer}{after}", False
    if draw < UNBOXED + TRUNCATED:
        return rf"{before}\boxed{{{answer[: len(answer) // 2]}", False
    return rf"{before}\boxed{{{answer}}}{after}", True


class _Text(Template):
    delimiter = "@"  # $ is for formulas


_OPENINGS = (
    "To solve this problem, let us work through it step by step.",
    "First, let us write down what is given and what is asked for.",
    "We need to analyze the situation carefully before computing anything.",
)
_STEPS = (
    "Let $x = @a$ and $y = @b$. The conditions then become $x + y = @{e}$ and $xy = @f$.",
    r"Substituting, we get \[@{a}x + @b = @e \implies x = \frac{@e - @b}{@a}.\]",
    r"There are $\binom{@a}{2}$ pairs, and @b of them do not count, which leaves the others.",
    r"By the Pythagorean theorem, $c = \sqrt{@a^2 + @b^2}$, and the leg has length $@c$.",
    "The discriminant is $b^2 - 4ac = @e - 4 \\cdot @c$, so there are two real roots.",
    "1. **Set up the equation.** The first condition says that $@{a}p - @{b}q = @d$.",
    "2. **Simplify.** Dividing both sides by $@d$ leaves us with a linear equation in $p$.",
    r"Note that $\sin^2 \theta + \cos^2 \theta = 1$, hence $\tan \theta = \frac{@c}{@f}$.",
    "Checking small cases: for $n = 1$ we get @a, for $n = 2$ we get @b, for $n = 3$ we get @e.",
    "The sum of the first @c terms is $S = \\frac{@c}{2} (2 \\cdot @a + (@c - 1) \\cdot @d)$.",
    "Wait, I should double-check this: $@a \\cdot @b$ was used where $@a + @b$ is meant.",
    r"Modulo $@d$ the powers repeat with period @f, so only the remainder of @e matters.",
    r"The area is $\frac{1}{2} \cdot @a \cdot @b$, and the perimeter is $@a + @b + @c$ units.",
    r"Expanding gives $$(x - @a)(x + @b) = x^2 + (@b - @a)x - @a \cdot @b,$$ as expected.",
)
_GUESS = r"A first guess would be $\boxed{@guess}$, but one condition has not been used yet."
_ENDINGS = (
    ("Therefore, the answer is $", "$."),
    ("Thus, the final answer is:\n\\[\n", "\n\\]"),
    ("So the answer is \\(", "\\)."),
    ("**Final Answer:** $", "$"),
)


def _integer(n: int) -> Forms:
    forms = [str(n), f"x = {n}", f" {n} ", f"{n}.0"]
    if abs(n) < 1000:
        return forms
    grouped = (f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,"))
    return [*forms, *grouped, *grouped]


def _over(numerator: object, denominator: int, command: str = r"\frac") -> str:
    sign = "-" if str(numerator).startswith("-") else ""
    return f"{sign}{command}{{{str(numerator).removeprefix('-')}}}{{{denominator}}}"


def _fraction(n: int, d: int) -> Forms | None:
    if d < 2 or gcd(n, d) > 1:
        return None
    forms = [_over(n, d), _over(n, d, r"\dfrac"), f"{n}/{d}", f"x = {_over(n, d)}"]
    decimal = f"{n / d:.4f}".rstrip("0")
    return [*forms, decimal, decimal] if Fraction(decimal) == Fraction(n, d) else forms


def _decimal(hundredths: int) -> Forms | None:
    if hundredths % 100 == 0:
        return None
    value = Fraction(hundredths, 100)
    usual, ratio = f"{hundredths / 100:.2f}".rstrip("0"), _over(*value.as_integer_ratio())
    return [usual, ratio, f"{usual}0", f"x = {usual}", ratio.replace(r"\frac", r"\dfrac")]


def _times(factor: int, symbol: str) -> str:
    return {1: symbol, -1: f"-{symbol}"}.get(factor, f"{factor}{symbol}")


def _of_pi(n: int, d: int) -> Forms | None:
    if n == 0 or d < 1 or gcd(n, d) > 1:
        return None
    if d == 1:
        return [_times(n, r"\pi"), rf"{n} \pi", rf"{n} \cdot \pi", rf"A = {n}\pi"]
    over = _times(n, r"\pi")
    return [_over(over, d), _over(over, d, r"\dfrac"), rf"{_over(n, d)}\pi", f"{over}/{d}"]


def _root(a: int, k: int) -> Forms | None:
    root = rf"\sqrt{{{SQUAREFREE[k]}}}" if 0 <= k < len(SQUAREFREE) else ""
    if a == 0 or not root:
        return None
    sign, square = "-" if a < 0 else "", a * a * SQUAREFREE[k]
    other = rf"{sign}\sqrt{{{square}}}" if abs(a) > 1 else rf"{sign}1{root}"
    return [_times(a, root), other, rf"{a} \cdot {root}", f"x = {_times(a, root)}"]


def _root_over(a: int, k: int, d: int) -> Forms | None:
    root = rf"\sqrt{{{SQUAREFREE[k]}}}" if 0 <= k < len(SQUAREFREE) else ""
    if a == 0 or not root or d < 2 or gcd(a, d) > 1:
        return None
    over = _times(a, root)
    return [_over(over, d), _over(over, d, r"\dfrac"), f"{_over(a, d)}{root}", f"{over}/{d}"]


def _sum(*terms: tuple[int, str]) -> str:
    """The terms that are not 0, as in `2x^2-x+3`; an empty symbol for the number."""
    written = (_times(a, symbol) if symbol else str(a) for a, symbol in terms if a)
    return "+".join(written).replace("+-", "-") or "0"


def _spaced(form: str) -> str:
    return form[:1] + form[1:].replace("+", " + ").replace("-", " - ")


def _root_sum(p: int, a: int, k: int) -> Forms | None:
    if p == 0 or a == 0 or not 0 <= k < len(SQUAREFREE):
        return None
    number, root = (p, ""), (a, rf"\sqrt{{{SQUAREFREE[k]}}}")
    usual, other = _sum(number, root), _sum(root, number)
    return [usual, other, _spaced(usual), _spaced(other), f"x = {usual}"]


def _point(x: int, y: int) -> Forms:
    return [
        f"({x},{y})",
        f"({x}, {y})",
        rf"\left( {x}, {y} \right)",
        rf"( {x},\, {y} )",
        f"(x,y) = ({x},{y})",
    ]


def _point_in_space(x: int, y: int, z: int) -> Forms:
    return [f"({x},{y},{z})", f"({x}, {y}, {z})", rf"\left({x},{y},{z}\right)"]


def _point_with_fraction(n: int, d: int, y: int) -> Forms | None:
    fraction = _fraction(n, d)
    if not fraction:
        return None
    usual, *others = (rf"\left( {form}, {y} \right)" for form in fraction if "=" not in form)
    return [usual, *others, usual.replace(r"\left", "").replace(r"\right", "")]


def _list(a: int, b: int, c: int) -> Forms | None:
    if not a < b < c:
        return None
    return [f"{a},{b},{c}", f"{a}, {b}, {c}", f"{c},{a},{b}", f"{b}, {a}, {c}", f"x = {a},{b},{c}"]


def _set(a: int, b: int, c: int) -> Forms | None:
    if not a < b < c:
        return None
    inner = (f"{a}, {b}, {c}", f"{c}, {b}, {a}", f"{b},{a},{c}")
    return [rf"\{{{a},{b},{c}\}}", *(rf"\{{{entries}\}}" for entries in inner)]


def _interval(a: int, b: int, left: int, right: int) -> Forms | None:
    if a >= b or {left, right} - {0, 1}:
        return None
    opening, closing = "(["[left], ")]"[right]
    usual, spaced = f"{opening}{a},{b}{closing}", f"{opening}{a}, {b}{closing}"
    sized = rf"\left{opening}{a}, {b}\right{closing}"
    return [usual, spaced, sized, rf"x \in {usual}"]


def _union(a: int, b: int) -> Forms | None:
    if a >= b:
        return None
    left, right = rf"(-\infty,{a})", rf"({b},\infty)"
    return [
        rf"{left} \cup {right}",
        rf"{right} \cup {left}",
        rf"{left}\cup{right}",
        rf"\left(-\infty, {a}\right) \cup \left({b}, \infty\right)",
    ]


def _polynomial(a: int, b: int, c: int) -> Forms | None:
    if a == 0 or b == 0:
        return None
    terms = (a, "x^2"), (b, "x"), (c, "")
    usual = _sum(*terms)
    return [usual, _spaced(usual), _sum(*reversed(terms)), _spaced(_sum(*terms[1:], terms[0]))]


def _product(p: int, q: int) -> Forms | None:
    if p == 0 or q == 0 or p > q:
        return None
    x = (1, "x")
    first, second = f"({_sum(x, (p, ''))})", f"({_sum(x, (q, ''))})"
    expanded = _sum((1, "x^2"), (p + q, "x"), (p * q, ""))
    return [first + second, second + first, f"{first} {second}", expanded]


def _line(m: int, b: int) -> Forms | None:
    if m == 0 or b == 0:
        return None
    right = _sum((m, "x"), (b, ""))
    other = f"y = {_sum((b, ''), (m, 'x'))}"
    return [f"y={right}", f"y = {right}", other, f"{_sum((m, 'x'), (-1, 'y'), (b, ''))} = 0"]


def _rational_function(p: int, q: int) -> Forms | None:
    if p == q or p == 0 or q == 0:
        return None
    above, below = _sum((1, "x"), (p, "")), _sum((1, "x"), (q, ""))
    other = _sum((p, ""), (1, "x"))
    forms = (rf"\dfrac{{{above}}}{{{below}}}", rf"\frac{{{other}}}{{{below}}}")
    return [rf"\frac{{{above}}}{{{below}}}", *forms, f"({above})/({below})"]


def _word(i: int) -> Forms | None:
    if not 0 <= i < len(WORDS):
        return None
    word = WORDS[i]
    return [rf"\text{{{word}}}", word, rf"\textbf{{{word}}}", rf"\text{{ {word.capitalize()} }}"]


def _name(i: int) -> Forms | None:
    if not 0 <= i < len(NAMES):
        return None
    return [rf"\text{{{NAMES[i]}}}", NAMES[i], rf"\mathrm{{{NAMES[i]}}}"]


def _choice(i: int) -> Forms | None:
    if not 0 <= i < 5:
        return None
    letter = "ABCDE"[i]
    return [rf"\text{{({letter})}}", letter, f"({letter})", rf"\text{{{letter}}}"]


def _matrix(a: int, b: int, c: int, d: int) -> Forms:
    rows = rf"{a} & {b} \\ {c} & {d}"
    forms = [rf"\begin{{{kind}matrix}} {rows} \end{{{kind}matrix}}" for kind in "pb"]
    return [*forms, forms[0].replace(" ", "").replace(r"\\", "\\\\\n")]


def _complex(a: int, b: int) -> Forms | None:
    if a == 0 or b == 0:
        return None
    usual, other = _sum((a, ""), (b, "i")), _sum((b, "i"), (a, ""))
    return [usual, other, _spaced(usual), f"z = {usual}"]


def _length(n: int) -> Forms | None:
    if n < 1:
        return None
    power = ("", "^2", "^3")[n % 3]  # a wrong value has another number: it may be written without
    units = (rf"\text{{ cm}}{power}", rf"\ \text{{cm}}{power}", rf"\mathrm{{cm}}{power}", "")
    return [f"{n}{unit}" for unit in units]


def _degrees(n: int) -> Forms | None:
    return [rf"{n}^\circ", str(n), rf"{n}^{{\circ}}"] if n > 0 else None


def _dollars(cents: int) -> Forms | None:
    amount = f"{cents / 100:.2f}"
    return [rf"\${amount}", amount, rf"\$ {amount}"] if cents > 0 and cents % 10 else None


KINDS = (
    Kind(20, _integer, ((0, 12),)),
    Kind(20, _integer, ((13, 99),)),
    Kind(11, _integer, ((100, 999),)),
    Kind(5, _integer, ((1000, 99_999),)),
    Kind(4, _integer, ((-30, -1),)),
    Kind(12, _fraction, ((-20, 60), (2, 40))),
    Kind(3, _decimal, ((1, 9999),)),
    Kind(2.5, _of_pi, ((1, 40), (1, 6))),
    Kind(2.5, _root, ((1, 15), (0, 9))),
    Kind(1.5, _root_over, ((1, 12), (0, 9), (2, 12))),
    Kind(1.5, _root_sum, ((-9, 20), (-9, 9), (0, 9))),
    Kind(1.5, _point, ((-9, 20), (-9, 20))),
    Kind(0.5, _point_in_space, ((-9, 9), (-9, 9), (-9, 9))),
    Kind(0.5, _point_with_fraction, ((-9, 20), (2, 9), (-9, 9))),
    Kind(1, _list, ((-9, 1), (0, 9), (8, 20))),
    Kind(0.5, _set, ((-9, 1), (0, 9), (8, 20))),
    Kind(1.5, _interval, ((-9, 1), (0, 20), (0, 1), (0, 1))),
    Kind(0.5, _union, ((-9, 1), (0, 9))),
    Kind(2.5, _polynomial, ((-5, 9), (-9, 9), (-20, 20))),
    Kind(1.5, _product, ((-9, 9), (-9, 9))),
    Kind(1, _line, ((-9, 9), (-20, 20))),
    Kind(1, _rational_function, ((-9, 9), (-9, 9))),
    Kind(1, _word, ((0, 7),)),
    Kind(1, _name, ((0, 7),)),
    Kind(1, _choice, ((0, 4),)),
    Kind(0.5, _matrix, ((-9, 9), (-9, 9), (-9, 9), (-9, 9))),
    Kind(0.5, _complex, ((-9, 9), (-9, 9))),
    Kind(0.5, _length, ((1, 200),)),
    Kind(0.25, _degrees, ((5, 175),)),
    Kind(0.25, _dollars, ((100, 9999),)),
)
