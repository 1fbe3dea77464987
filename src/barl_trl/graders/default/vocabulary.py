"""Words that doubts know: units, quantities, and the TeX that the parser does not skip."""

import re


def _listed(names: str) -> list[str]:
    return re.findall(r"\w+", names)


UNITS = {
    alias: aliases.split()[0]
    for aliases in (
        *("mm millimeter millimetre", "cm centimeter centimetre", "m meter metre"),
        *("km kilometer kilometre", "in inch inche", "ft foot feet", "yd yard", "mi mile"),
        *("mg milligram", "g gram", "kg kilogram", "lb pound", "oz ounce"),
        *("s sec second", "min minute", "h hr hour", "day", "week", "month", "yr year"),
        *("ml milliliter millilitre", "l liter litre", "percent pct"),
    )
    for alias in aliases.split()
}
"""Name in the singular -> unit."""

QUANTITIES = frozenset(
    _listed(
        """zero one two three four five six seven eight nine ten eleven twelve dozen hundred
        thousand million billion trillion half double triple squared cubed minus plus times not no
        wrong except"""
    )
)
"""Words that change the value of the number beside them."""

UNDERSTOOD = frozenset(
    _listed(
        """frac dfrac tfrac binom dbinom tbinom sqrt cdot cdotp times div pm mp circ degree prime
        pi infty infinity ell alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa
        lambda mu nu xi rho sigma tau upsilon phi varphi chi psi omega
        Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
        in cup cap setminus emptyset le leq leqslant ge geq geqslant lt gt ne neq lor vee land wedge
        sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp max min bmod pmod mod
        sum prod int lfloor rfloor lceil rceil mid vert lvert rvert angle triangle
        dots ldots cdots overline bar vec hat begin end left right quad qquad
        displaystyle textstyle text textbf textit textrm textnormal mathrm mbox mathbf mathit
        mathbb mathcal operatorname"""
    )
)
"""Commands. math-verify drops others, or takes the last number that it finds behind them."""
