r"""What must hold of the default grader without any label: Markdown tables.

`python benchmarks/answer_properties.py [--quick] [--pairs 20000] [--seed 0] [--json FILE]`

- Changed answers: in the true answers of `tests/cases` one thing is changed, such as a digit, a
  sign, a variable, a relation or a bracket, so that the value is another one. Where it is not
  (`0\cdot 4` for `0`) the accept is right. All accepts and failures are printed.
- Soup: pieces of answers in a random order. No comparison may crash, and few may time out.
- Equivalence: 200 forms of 55 answers, each compared with each. How many pairs match one way only,
  and how many triples break transitivity: a ~ b ~ c, but not a ~ c.
"""

import argparse
import itertools
import json
import random
import re
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from barl_trl.graders import get_grader
from barl_trl.graders.processes import compare

CASES = Path(__file__).parents[1] / "tests" / "cases"
BATCH = 500

CHANGES = {
    "a digit": (r"\d", lambda old, rng: rng.choice([d for d in "123456789" if d != old])),
    "a digit more": (r"(?<![\d.])\d", lambda old, rng: rng.choice("123456789") + old),
    "a sign": (r"(?<=\d|[a-z)}])[+-](?=[\da-z(\\])", lambda old, rng: "-" if old == "+" else "+"),
    "a minus in front": (r"\A-?(?=[\d\\])", lambda old, rng: "" if old else "-"),
    "a variable": (
        r"(?<![A-Za-z\\])[a-z](?![A-Za-z])",
        lambda old, rng: rng.choice([letter for letter in "kpqw" if letter != old]),
    ),
    "a relation": (r"[<>]", lambda old, rng: "<" if old == ">" else ">"),
    "a bracket": (r"\A[\[(]", lambda old, rng: "[" if old == "(" else "("),
    "a factor": (r"\Z", lambda old, rng: rf"\cdot {rng.randint(2, 9)}"),
    "a term": (r"\Z", lambda old, rng: f"+{rng.randint(1, 9)}"),
    "an element": (r"\Z", lambda old, rng: f",{rng.randint(100, 199)}"),
    "a side": (r"\Z", lambda old, rng: f"={rng.randint(1000, 1999)}"),
    "a word": (r"\Z", lambda old, rng: rng.choice([r"\text{ million}", r"\text{ is wrong}"])),
}
"""What is changed: where, and into what."""

POOL = r"""
1/2  \frac{1}{2}  0.5  \frac12  50\%  .5  \frac{2}{4}  2^{-1}
50  50.0  \text{fifty}  50\text{ cm}  5\cdot 10  $50$
2  \sqrt{4}  x=2  1+1  2.0  \frac{4}{2}
y=2  2=y
-3  -\sqrt{9}  x=-3  -3.0  \frac{-6}{2}
1000  1,000  1{,}000  10^3  1000\text{ dollars}  \$1000
\pi  3.14159265  \frac{2\pi}{2}  180^\circ
3.14  \frac{157}{50}  314\%
\sqrt{2}  2^{1/2}  \frac{2}{\sqrt{2}}  1.41421356  \sqrt2
1.4142  \frac{7071}{5000}
\frac{1}{3}  0.333333333  0.\overline{3}  1/3  \frac{2}{6}
0.33  33\%  \frac{33}{100}
1.5  \frac{3}{2}  1\frac{1}{2}  150\%  3/2
\{1,2\}  \{2,1\}  1,2  2,1  1\text{ and }2  x=1,2  x=1\text{ or }x=2
(1,2)  \left(1,2\right)  \langle 1,2\rangle  (1.0,2)
1<x<2  x\in(1,2)  2>x>1
[1,2]  1\le x\le2  x\in[1,2]
(2,1)  (2, \frac{2}{2})
x>1  (1,\infty)  x\in(1,\infty)  1<x
x\ge1  [1,\infty)  1\le x
(-\infty,1)\cup(2,\infty)  x<1\text{ or }x>2  (2,\infty)\cup(-\infty,1)
x^2-1  (x+1)(x-1)  -1+x^2  (x-1)(x+1)
x^2+1  1+x^2  x^2+2-1
y=x^2+1  y-1=x^2  x^2+1=y  f(x)=x^2+1
2x+3y=6  3y=6-2x  4x+6y=12  y=2-\frac{2x}{3}
x+y  y+x  a=x+y
\sin(2x)  2\sin x\cos x  \sin 2x
\cos(2x)  1-2\sin^2 x  2\cos^2 x-1
\ln 4  2\ln 2  \log 4
e^{2x}  (e^x)^2  \exp(2x)
3+4i  4i+3  3+4 i
5  |3+4i|  \sqrt{25}  5\text{ km}  5\text{ m}
\begin{pmatrix}1\\2\end{pmatrix}  \begin{bmatrix}1\\2\end{bmatrix}
\begin{pmatrix}1&2\end{pmatrix}  \begin{bmatrix}1&2\end{bmatrix}
\text{yes}  Yes  \textbf{yes}  yes.
\text{no}  no  \text{No}
B  (B)  \text{B}  \text{(B)}
\text{even}  even  \text{Even}
10^{20}  100000000000000000000  1.0\cdot10^{20}
10^{20}+1  100000000000000000001
5!  120  5\cdot4!
\binom{5}{2}  10  \frac{5!}{2!3!}
101_2  101_{2}  101_3
\infty  +\infty  -\infty
\emptyset  \varnothing  \{\}  \text{no solution}
x^3  x\cdot x^2  xx^2  \frac{x^4}{x}
x  y
\frac{a}{b}  a/b  ab^{-1}  \frac{1}{b}a
\frac{1}{1+x}  (1+x)^{-1}  1/(x+1)
|x|  \sqrt{x^2}  |-x|
2\pi r  2r\pi  2\pi R
-2,2  \pm2  x=\pm2  \{-2,2\}
0  0.0  x-x  0\cdot 5
12\%  0.12  \frac{3}{25}
6:00  6:00\text{ PM}  6:00\text{ AM}  6\text{ PM}
"""
"""Forms of an answer on a line each; two spaces apart."""


def changed(golds: list[str], rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield what is changed, a true answer and the changed one, for ever."""
    while True:
        kind, gold = rng.choice([*CHANGES]), rng.choice(golds)
        pattern, new = CHANGES[kind]
        places = [*re.finditer(pattern, gold)]
        if not places or ("text" in gold and kind != "a digit"):
            continue
        place = rng.choice(places)
        yield kind, gold, gold[: place.start()] + new(place[0], rng) + gold[place.end() :]


def soup(golds: list[str], rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield true answers with pieces of others, for ever."""
    pieces = [piece for gold in golds for piece in re.findall(r"\\[A-Za-z]+|\d+|.", gold)]
    while True:
        made = "".join(rng.choices(pieces, k=rng.randint(1, 12)))
        yield "soup", rng.choice(golds), made


def fuzz(count: int, seed: int) -> tuple[dict[str, Counter[str]], list[tuple[str, str, str]]]:
    """Return verdicts by kind of change, and all pairs that were accepted or failed."""
    rng, grader = random.Random(seed), get_grader("math_verify")
    rows = [
        json.loads(line)
        for path in sorted(CASES.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    golds = sorted({row["gold"] for row in rows})
    tried = [
        *itertools.islice(changed(golds, rng), count - count // 4),
        *itertools.islice(soup(golds, rng), count // 4),
    ]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in [*CHANGES, "soup"]}
    seen = []
    for start in range(0, count, BATCH):
        batch = tried[start : start + BATCH]
        verdicts = grader.verify_all((gold, answer) for _, gold, answer in batch)
        for kind, gold, answer in batch:
            verdict = verdicts[gold, answer]
            outcome = "accepted" if verdict.correct else "refused"
            counts[kind][verdict.reason if verdict.reason in ("timeout", "crash") else outcome] += 1
            if verdict.correct or verdict.is_failure:
                seen.append((verdict.reason if verdict.is_failure else "accepted", gold, answer))
    return counts, seen


def relation(forms: list[str]) -> dict[str, list[tuple[str, ...]]]:
    """Return the pairs that match one way only, and the triples that break transitivity."""
    verdicts = get_grader("math_verify").verify_all((a, b) for a in forms for b in forms)
    both = {
        (a, b) for a, b in itertools.permutations(forms, 2) if verdicts[a, b] and verdicts[b, a]
    }
    one_way = [
        (a, b)
        for a, b in itertools.permutations(forms, 2)
        if verdicts[a, b].correct and not verdicts[b, a].correct
    ]
    triples = [
        (a, b, c)
        for a, b in sorted(both)
        for c in forms
        if a < c and (b, c) in both and (a, c) not in both
    ]
    return {"one_way": one_way, "triples": triples}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What must hold of a grader without labels.")
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="100 pairs, 12 forms")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    forms = [form for line in POOL.split("\n") for form in re.split(" {2,}", line) if form]
    pairs, forms = (100, forms[:12]) if arguments.quick else (arguments.pairs, forms)
    counts, seen = fuzz(pairs, arguments.seed)
    found = relation(forms)
    compare.close()
    print("| changed | pairs | accepted | timeout | crash |\n|---|---|---|---|---|")
    for kind, outcomes in counts.items():
        cells = [outcomes.total(), *(outcomes[name] for name in ("accepted", "timeout", "crash"))]
        print(f"| {kind} | {' | '.join(map(str, cells))} |")
    for outcome, gold, answer in seen:
        print(f"{outcome}: {gold!r} <- {answer!r}")
    print(f"\n{len(forms)} forms: {len(found['one_way'])} pairs match one way only")
    print(*(" -> ".join(pair) for pair in found["one_way"]), sep="\n")
    print(f"{len(found['triples'])} triples break transitivity")
    print(*(" ~ ".join(triple) for triple in found["triples"]), sep="\n")
    used = [*map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))]
    print(f"{sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU time")
    if arguments.json:
        record = {"counts": counts, "seen": seen, **found}
        arguments.json.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
