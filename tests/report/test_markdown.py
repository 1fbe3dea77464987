"""Names and values of others show as they are."""

import pytest
from barl_trl.report.markdown import code, escape


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("<script>x</script>", r"\<script>x\</script>"),
        ("*a* `b` $c$", r"\*a\* \`b\` \$c\$"),
        ("[x](http://y)", r"[x\](http://y)"),
        ("a\nb", "a b"),
        ("&lt;", r"\&lt;"),
        ("_a_b_", r"\_a_b\_"),
    ],
)
def test_markup_is_escaped(text, escaped):
    assert escape(text) == escaped


@pytest.mark.parametrize("text", ["math_500", "-2.0 [-3.1, -0.9]", "84.0 ± 1.2 %", "a & b > c"])
def test_names_and_numbers_stay(text):
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "span"), [("", "`  `"), ("a``b", "```a``b```"), ("`", "`` ` ``"), ("a\nb", "`a b`")]
)
def test_a_span_of_code_ends_where_the_text_does(text, span):
    assert code(text) == span
