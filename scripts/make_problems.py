"""Write `examples/problems.jsonl`: small problems of our own, with all usual kinds of answers.

`python scripts/make_problems.py [FILE]` writes the same file on every machine: it has a seed, and
no order comes from a set. Each template draws numbers, states a problem and returns it with its
answer in LaTeX. One that builds the problem from the answer computes the other way round, too.
"""

import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import sympy as sp

SEED = 20260101
PER_TEMPLATE = 8
DEFAULT_PATH = Path(__file__).parents[1] / "examples" / "problems.jsonl"

Problem = tuple[str, str]
Template = Callable[[random.Random], Problem]

NAMES = ("Amara", "Bruno", "Chiara", "Dmitri", "Evelyn", "Farid", "Greta", "Hiro", "Imani", "Jonas")
ITEMS = ("notebooks", "apples", "stickers", "pencils", "marbles", "postcards")
X = sp.Symbol("x")


def latex(value) -> str:
    """Return a number or expression in LaTeX, with `3x` for sympy's `3 x`."""
    if isinstance(value, Fraction):
        value = sp.Rational(value.numerator, value.denominator)
    return re.sub(r"(?<=\d) (?=[\\a-z])|(?<=^-) ", "", sp.latex(value))


def check(condition: object) -> None:
    """Stop unless an answer, computed the other way round, agrees."""
    if not condition:
        raise ArithmeticError("a template and its check disagree")


def _shopping(rng: random.Random) -> Problem:
    name, item = rng.choice(NAMES), rng.choice(ITEMS)
    packs, size, given = rng.randint(3, 9), rng.randint(4, 12), rng.randint(2, 11)
    text = f"{name} buys {packs} packs of {size} {item} each and gives {given} {item} to a friend. "
    return text + f"How many {item} does {name} have left?", latex(packs * size - given)


def _change(rng: random.Random) -> Problem:
    cents, number = rng.randint(35, 240), rng.randint(3, 8)
    paid = -(-cents * number // 100) + rng.randint(0, 5)
    left = paid * 100 - cents * number
    text = f"A ticket costs {cents} cents. {rng.choice(NAMES)} buys {number} tickets and pays with "
    return text + f"{paid} dollars. How many dollars of change are due?", f"\\${left / 100:.2f}"


def _work_together(rng: random.Random) -> Problem:
    one, two = rng.sample(range(2, 13), 2)
    rate = Fraction(1, one) + Fraction(1, two)
    text = f"One pump empties a tank in {one} hours, another one in {two} hours. "
    return text + "How many hours do they need together?", latex(1 / rate)


def _fraction_sum(rng: random.Random) -> Problem:
    a, b = (Fraction(rng.randint(1, 9), rng.randint(2, 12)) for _ in range(2))
    return f"Compute ${latex(a)} + {latex(b)}$ and reduce the fraction.", latex(a + b)


def _speed_with_unit(rng: random.Random) -> Problem:
    speed, hours = 5 * rng.randint(6, 24), rng.randint(2, 9)
    text = f"A train runs at {speed} kilometers per hour for {hours} hours. "
    return text + "How far does it go? Give the unit.", rf"{speed * hours}\text{{ km}}"


def _percent_change(rng: random.Random) -> Problem:
    old, percent = 20 * rng.randint(2, 20), 5 * rng.randint(1, 15)
    new = Fraction(old * (100 + percent), 100)
    check((new - old) / old * 100 == percent)
    text = f"A price rises from {old} dollars to {float(new):g} dollars. "
    return text + "By how many percent does it rise?", rf"{percent}\%"


def _square_root(rng: random.Random) -> Problem:
    factor, radicand = rng.randint(2, 9), rng.choice([2, 3, 5, 6, 7, 10])
    root = sp.sqrt(factor**2 * radicand)
    check(root**2 == factor**2 * radicand)
    return rf"Simplify $\sqrt{{{factor**2 * radicand}}}$.", latex(root)


def _rationalise(rng: random.Random) -> Problem:
    top, radicand = rng.randint(1, 9), rng.choice([2, 3, 5, 6, 7, 11])
    value = top / sp.sqrt(radicand)
    return rf"Rationalize the denominator of $\frac{{{top}}}{{\sqrt{{{radicand}}}}}$.", latex(value)


def _absolute_inequality(rng: random.Random) -> Problem:
    center, radius = rng.randint(-6, 9), rng.randint(1, 9)
    low, high = center - radius, center + radius
    check(abs(low - center) == abs(high - center) == radius)
    text = f"For which real $x$ is $|{latex(X - center)}| < {radius}$? "
    return text + "Give the answer as an interval.", f"({low},{high})"


def _quadratic_inequality(rng: random.Random) -> Problem:
    low, high = sorted(rng.sample(range(-8, 9), 2))
    expression = sp.expand((X - low) * (X - high))
    check(
        sp.solveset(expression >= 0, X, sp.S.Reals).complement(sp.S.Reals)
        == sp.Interval.open(low, high)
    )
    text = (
        rf"Solve ${latex(expression)} \ge 0$ over the reals. Give the answer in interval notation."
    )
    return text, rf"(-\infty,{low}]\cup[{high},\infty)"


def _tallest(rng: random.Random) -> Problem:
    first, second, third = rng.sample(NAMES, 3)
    a, b = (sign * rng.randint(2, 9) for sign in rng.choices([-1, 1], k=2))
    b -= a + b == 0  # no two equally tall
    heights = {first: 0, second: a, third: a + b}
    best = max(heights, key=heights.__getitem__)
    words = {True: "taller", False: "shorter"}
    text = f"{second} is {abs(a)} cm {words[a > 0]} than {first}, and {third} is {abs(b)} cm "
    return text + f"{words[b > 0]} than {second}. Who is the tallest?", rf"\text{{{best}}}"


def _divisible(rng: random.Random) -> Problem:
    divisor, number = rng.choice([3, 4, 6, 7, 8, 9, 11]), rng.randint(200, 999)
    if rng.random() < 0.5:
        number -= number % divisor
    answer = "Yes" if number % divisor == 0 else "No"
    return f"Is {number} divisible by {divisor}? Answer yes or no.", rf"\text{{{answer}}}"


def _multiple_choice(rng: random.Random) -> Problem:
    values = rng.sample(
        [Fraction(a, b) for b in range(2, 10) for a in range(1, b) if math.gcd(a, b) == 1], 4
    )
    letter = "ABCD"[values.index(max(values))]
    choices = ", ".join(f"({c}) ${latex(v)}$" for c, v in zip("ABCD", values, strict=True))
    return f"Which number is the largest? {choices}. Answer with the letter.", rf"\text{{{letter}}}"


def _linear_system(rng: random.Random) -> Problem:
    x, y = rng.randint(-7, 9), rng.randint(-7, 9)
    a, b, c, d = rng.sample(range(2, 9), 4)
    if a * d == b * c:
        d += 1
    check(
        sp.Matrix([[a, b], [c, d]]).LUsolve(sp.Matrix([a * x + b * y, c * x + d * y]))
        == sp.Matrix([x, y])
    )
    text = f"Solve ${a}x + {b}y = {a * x + b * y}$ and ${c}x + {d}y = {c * x + d * y}$. "
    return text + "Give the answer as an ordered pair $(x, y)$.", f"({x},{y})"


def _expand(rng: random.Random) -> Problem:
    a, b, c = rng.randint(2, 5), rng.randint(1, 9), rng.randint(-9, -1)
    return f"Expand $({a}x + {b})(x - {-c})$.", latex(sp.expand((a * X + b) * (X + c)))


def _derivative(rng: random.Random) -> Problem:
    a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 9)
    polynomial = a * X**3 - b * X**2 + c * X
    return f"Differentiate ${latex(polynomial)}$ with respect to $x$.", latex(
        sp.diff(polynomial, X)
    )


def _roots(rng: random.Random) -> Problem:
    low, high = sorted(rng.sample(range(-9, 10), 2))
    expression = sp.expand((X - low) * (X - high))
    check(sorted(sp.solve(expression, X)) == [low, high])
    text = f"Find the set of all real solutions of ${latex(expression)} = 0$."
    return text, rf"\{{{low},{high}\}}"


def _irrational_roots(rng: random.Random) -> Problem:
    center, radicand = rng.randint(1, 9), rng.choice([2, 3, 5, 6, 7, 10, 11, 13])
    expression = sp.expand((X - center) ** 2 - radicand)
    check(sp.expand(expression.subs(X, center + sp.sqrt(radicand))) == 0)
    text = f"What is the larger solution of ${latex(expression)} = 0$?"
    return text, rf"{center}+\sqrt{{{radicand}}}"


def _sector(rng: random.Random) -> Problem:
    radius, degrees = rng.randint(2, 12), rng.choice([30, 45, 60, 90, 120, 180, 270])
    area = sp.pi * radius**2 * sp.Rational(degrees, 360)
    text = f"What is the area of a sector of {degrees} degrees in a circle of radius {radius}?"
    return text, latex(area)


def _common_divisor(rng: random.Random) -> Problem:
    factor, a, b = rng.randint(3, 24), rng.randint(4, 15), rng.randint(4, 15)
    answer = math.gcd(factor * a, factor * b)
    return f"What is the greatest common divisor of {factor * a} and {factor * b}?", latex(answer)


def _last_digit(rng: random.Random) -> Problem:
    base, exponent, modulus = rng.randint(2, 9), rng.randint(20, 99), rng.choice([7, 9, 10, 11, 13])
    text = f"What is the remainder when ${base}^{{{exponent}}}$ is divided by {modulus}?"
    return text, latex(pow(base, exponent, modulus))


def _arrangements(rng: random.Random) -> Problem:
    word = rng.choice(
        [
            "LEVEL",
            "BANANA",
            "COFFEE",
            "TOOTH",
            "PEPPER",
            "ALGEBRA",
            "RABBIT",
            "LETTER",
            "CIRCLE",
            "RATIO",
        ]
    )
    count = math.factorial(len(word))
    for letter in sorted(set(word)):
        count //= math.factorial(word.count(letter))
    return f"In how many different orders can the letters of {word} be written?", latex(count)


def _two_draws(rng: random.Random) -> Problem:
    red, blue = rng.randint(2, 9), rng.randint(2, 9)
    both = Fraction(math.comb(red, 2), math.comb(red + blue, 2))
    check(both == Fraction(red, red + blue) * Fraction(red - 1, red + blue - 1))
    text = f"An urn holds {red} red and {blue} blue balls. Two are drawn without replacement. "
    return text + "What is the probability that both are red?", latex(both)


def _arithmetic_sum(rng: random.Random) -> Problem:
    first, step, terms = rng.randint(1, 20), rng.randint(2, 9), rng.randint(8, 40)
    total = sum(first + step * i for i in range(terms))
    start = ", ".join(str(first + step * i) for i in range(3))
    text = f"What is the sum of the first {terms} terms of the arithmetic sequence {start}, "
    return text + r"$\ldots$?", latex(total)


def _logarithm(rng: random.Random) -> Problem:
    base, top, bottom = rng.choice([2, 3, 5]), rng.randint(1, 5), rng.randint(2, 4)
    value = Fraction(top, bottom)
    check((base**bottom) ** sp.Rational(top, bottom) == base**top)
    return rf"Evaluate $\log_{{{base**bottom}}} {base**top}$.", latex(value)


def _complex_product(rng: random.Random) -> Problem:
    a, b, c, d = (rng.randint(1, 7) for _ in range(4))
    value = sp.expand((a + b * sp.I) * (c - d * sp.I))
    return f"Write $({a} + {b}i)({c} - {d}i)$ in the form $p + qi$.", latex(value)


def _clock(rng: random.Random) -> Problem:
    hour, minute = rng.randint(1, 12), 10 * rng.randint(0, 5)
    apart = abs(30 * (hour % 12) + Fraction(minute, 2) - 6 * minute)
    angle = min(apart, 360 - apart)
    text = f"What is the smaller angle between the hands of a clock at {hour}:{minute:02d}? "
    return text + "Use degrees.", rf"{latex(angle)}^\circ"


def _weekday(rng: random.Random) -> Problem:
    day, days = date(2024, 1, 1) + timedelta(rng.randint(0, 6)), rng.randint(20, 400)
    text = f"Today is {day:%A}. Which day of the week will it be in {days} days?"
    return text, rf"\text{{{day + timedelta(days):%A}}}"


def _exact_sine(rng: random.Random) -> Problem:
    degrees = rng.choice([n for n in range(30, 361, 15) if n % 30 == 0 or n % 45 == 0])
    function, name = rng.choice([(sp.sin, "sin"), (sp.cos, "cos")])
    value = function(sp.rad(degrees))
    return rf"What is the exact value of $\{name} {degrees}^\circ$?", latex(value)


def _distance(rng: random.Random) -> Problem:
    a, b, c, d = (rng.randint(-6, 6) for _ in range(4))
    length = sp.sqrt((a - c) ** 2 + (b - d) ** 2)
    return f"How far apart are the points $({a}, {b})$ and $({c}, {d})$?", latex(length)


def _repeating_decimal(rng: random.Random) -> Problem:
    digits = rng.randint(1, 98)
    value = Fraction(digits, 99)
    check(str(float(value))[2:6] == f"{digits:02d}" * 2)
    return rf"Write $0.\overline{{{digits:02d}}}$ as a fraction in lowest terms.", latex(value)


TEMPLATES: tuple[Template, ...] = (
    _shopping, _change, _work_together, _fraction_sum, _speed_with_unit, _percent_change,
    _square_root, _rationalise, _absolute_inequality, _quadratic_inequality, _tallest,
    _divisible, _multiple_choice, _linear_system, _expand, _derivative, _roots,
    _irrational_roots, _sector, _common_divisor, _last_digit, _arrangements, _two_draws,
    _arithmetic_sum, _logarithm, _complex_product, _clock, _weekday, _exact_sine, _distance,
    _repeating_decimal,
)  # fmt: skip


def problems() -> Iterator[Problem]:
    """Yield the problems, each once: `PER_TEMPLATE` of each template."""
    for template in TEMPLATES:
        # Seeded by name: a new template leaves the others' problems as they are.
        rng = random.Random(f"{SEED} {template.__name__}")
        seen: dict[str, str] = {}
        while len(seen) < PER_TEMPLATE:
            text, answer = template(rng)
            seen.setdefault(text, answer)
        yield from seen.items()


def main(path: Path) -> None:
    """Write the problems as JSON lines, shuffled, so that any slice has all kinds."""
    rows = list(problems())
    random.Random(SEED).shuffle(rows)
    lines = [json.dumps({"problem": text, "answer": answer}) for text, answer in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_PATH)
