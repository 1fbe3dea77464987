"""What is read without a parser, and what is not; sympy's own writing of its expressions is."""

import time

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders.default.polynomials import as_number
from barl_trl.graders.default.readings import Several, Value, read
from barl_trl.graders.strings import normal_form


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("2+3", "5"),
        ("-2^2", "-4"),
        ("+7", "7"),
        ("2-3-4", "-5"),
        ("12/3/2", "2"),
        ("12/3*2", "8"),
        (r"12\div 3\times 2", "8"),
        (r"\frac12", "1/2"),
        (r"\frac 12", "1/2"),
        (r"\frac1{2}", "1/2"),
        (r"\frac{1}2", "1/2"),
        (r"\frac{1}{2}\frac{1}{3}", "1/6"),
        (r"\frac{\frac12}{3}", "1/6"),
        ("2^{10}", "1024"),
        ("2^{-1}", "1/2"),
        ("2^{1+1}", "4"),
        (r"\sqrt9", "3"),
        (r"\sqrt{\frac{1}{4}}", "1/2"),
        (r"\sqrt2\sqrt{8}", "4"),
        ("2(1+2)", "6"),
        ("(1+1)(1+2)", "6"),
        (".5+1.25", "7/4"),
        ("i^2", "-1"),
        ("x-x", "0"),
    ],
)
def test_what_is_read_as_a_number(form, value):
    reading = read(form)
    assert isinstance(reading, Value)
    assert as_number(reading.ratio) == sympy.Rational(value)


@pytest.mark.parametrize(
    "form",
    [
        *("", " ", "+", "2+", "()", "(2", "2)", "{2}", "2--3", r"2\cdot-3", "2**3", "5.", "1.2.3"),
        # in two ways
        *("1/2x", r"1/2\pi", r"x/2\sqrt{3}", r"1\frac12", "1 1/2", "x2", "2 3", "x^12", "2^3^4"),
        *(r"\sqrt12", r"\frac123", "f(x)", "x(x+1)", "f^{-1}(x)", "(12)(34)", "2(3)", "(1,000)"),
        # letters that mean something, and words
        *("e", "e^x", r"\frac{dy}{dx}", "I", "E", "abc", "2ln x", "lg x", "sin x", r"\sin x"),
        # other mathematics
        *("x_1", "x^y", "2^{1/2}", "2^x", r"\sqrt{x}", r"\sqrt[3]{8}", r"\sqrt{\pi}", "3!", "|x|"),
        *(r"\frac{1}{0}", "1/0", "x/(1-1)", "0^0", "0^{-1}", r"\theta", "50%", r"90^\circ", "x<1"),
        *(
            r"5\text{ cm}",
            r"\pm1",
            r"0.\overline{3}",
            r"\infty+1",
            r"2\infty",
            "[1]",
            "f'",
            "½",
            "٣",
        ),
        *(
            "(1,)",
            r"\{\}",
            "1,,2",
            r"\begin{vmatrix}1&2\end{vmatrix}",
            r"\begin{pmatrix}\end{pmatrix}",
        ),
    ],
)
def test_what_is_left_to_a_parser(form):
    assert read(form) is None


@pytest.mark.parametrize(
    ("form", "kind", "parts"),
    [
        ("(1,2)", "()", 2),
        ("[1, 2)", "[)", 2),
        ("(1,2,3)", "()", 3),
        (r"(-\infty,\frac{1}{2}]", "(]", 2),
        (r"\{1\}", "set", 1),
        (r"\{1,x\}", "set", 2),
        ("1,2,x+1", "list", 3),
        ("(1,2),(3,4)", "list", 2),
        (r"\{(1,2),(3,4)\}", "set", 2),
        ("((1,2),3)", "()", 2),
        (r"(1,2]\cup[3,4)\cup\{7\}", "union", 3),
        (r"\begin{pmatrix}1&x\\3&4\end{pmatrix}", "matrix", 2),
        (r"\begin{bmatrix} 1 \\ 2 \\ 3 \end{bmatrix}", "matrix", 3),
    ],
)
def test_what_is_read_as_several_values(form, kind, parts):
    reading = read(form)
    assert isinstance(reading, Several)
    assert (reading.kind, len(reading.parts)) == (kind, parts)


def test_the_depth_of_brackets_is_limited():
    assert isinstance(read("(" * 40 + "x" + ")" * 40), Value)
    assert read("(" * 41 + "x" + ")" * 41) is None


LEAVES = (
    st.integers(1, 12).map(sympy.Integer)
    | st.sampled_from([*sympy.symbols("x y a"), sympy.pi])
    | st.integers(2, 30).map(sympy.sqrt)
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(sum),
        st.tuples(inner, inner).map(lambda two: two[0] * two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] - two[1]),
        st.tuples(inner, inner.filter(lambda below: sympy.expand(below) != 0)).map(
            lambda two: two[0] / two[1]
        ),
        st.tuples(inner, st.integers(1, 3)).map(lambda two: two[0] ** two[1]),
    ),
    max_leaves=10,
)


@given(EXPRESSIONS, st.sampled_from([sympy.expand, sympy.together, sympy.factor, lambda e: e]))
@settings(max_examples=100, deadline=None)
def test_what_sympy_writes_is_read(expression, rewritten):
    form = normal_form(sympy.latex(rewritten(expression), mul_symbol="dot"))
    reading = read(form)
    if reading is None:
        assert r"\sqrt{" in form, "a root of a sum, or of more than is factored"
        return
    assert isinstance(reading, Value)
    assert same_value(reading, expression)


def same_value(reading: Value, expression: sympy.Expr) -> bool:
    above, below = (as_sympy(polynomial) for polynomial in reading.ratio)
    numerator, denominator = sympy.fraction(sympy.together(expression))
    return sympy.expand(above * denominator - below * numerator) == 0


def as_sympy(polynomial: dict) -> sympy.Expr:
    names = {"π": sympy.pi}
    return sympy.Add(
        *(
            sympy.Rational(number.numerator, number.denominator)
            * sympy.sqrt(root)
            * sympy.Mul(*(names.get(n, sympy.Symbol(n)) ** power for n, power in letters))
            for (root, letters), number in polynomial.items()
        )
    )


HOSTILE = {
    "tower": "9^{9^9}",
    "braced tower": "9^{9^{9^{9}}}",
    "power of ten": "10^{99999}",
    "powers of powers": "((((9^{99})^{99})^{99})^{99})^{99}",
    "powers of letters": "((((x^{999})^{999})^{999})^{999})^{999}",
    "trinomial": "(x+y+z)^{60}",
    "binomials": "+".join(["(a+b)^{31}(a-b)^{31}"] * 8),
    "fractions of sums": "+".join(rf"\frac{{{c}+1}}{{{c}+2}}" for c in "abcfghjkmn"),
    "digits": "1" * 199,
    "digits to a power": f"{'7' * 190}^9",
    "too many digits": "1" * 5000,
    "letters": "x" * 5000,
    "products": r"x\cdot y" * 500,
    "sums": "+".join(["x"] * 90),
    "deep fractions": r"\frac{1}{" * 50 + "2" + "}" * 50,
    "deep continued fraction": r"1+\frac{1}{" * 14 + "x" + "}" * 14,
    "deep brackets": "(" * 100 + "x" + ")" * 100,
    "deep pairs": "(1," * 30 + "2" + ")" * 30,
    "open brackets": "([{" * 30,
    "roots": "+".join(rf"\sqrt{{{n}}}" for n in range(999_983, 1_000_000)),
    "product of roots": "".join(rf"(1+\sqrt{{{n}}})" for n in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)),
    "root of a power": r"\sqrt{10^{300}}",
    "commas": "," * 5000,
    "list": ",".join(map(str, range(70))),
    "cups": r"\cup" * 1000,
    "cells": "&" * 5000,
    "division by zero": r"\frac{1}{0}",
    "hidden division by zero": r"\frac{1}{(x+1)^2-x^2-2x-1}",
    "zero to the zero": "0^0",
    "other digits": "٣+1",
    "small digits": "x²",
    "null": "1+\0",
    "surrogate": "\ud800+1",
}


@pytest.mark.parametrize("form", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_forms_are_read_or_left_at_once(form):
    start = time.process_time()
    read(form)
    assert time.process_time() - start < 1


@given(st.text(max_size=60) | st.text(r"0123459x+-*/^(){}[],. \pisqrtfac&i", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(text):
    read(text)
