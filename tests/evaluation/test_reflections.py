"""Reflections are found by keywords and counted by difficulty."""

import pytest

from barl_trl.evaluation.statistics.reflections import KEYWORDS, reflections_by_difficulty

from .files import problems, response

REFLECTS, PLAIN = "Let me DOUBLE-CHECK this.", "So x = 2."


def group(problem_id, rewards, texts):
    pairs = enumerate(zip(rewards, texts, strict=True))
    return [response(problem_id, n, reward, text=text) for n, (reward, text) in pairs]


def has_reflection(text):
    [solved, _] = reflections_by_difficulty({0: group(0, [1], [text])}, num_samples=1)
    return solved.frequency == 1


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_is_found_in_any_case_and_within_words(keyword):
    assert has_reflection(f"Hm. {keyword.upper()}ing, we see it.")


@pytest.mark.parametrize("text", ["", PLAIN, "We check that x = 2 again holds.", "Think: again 3."])
def test_other_words_are_no_reflection(text):
    assert not has_reflection(text)


def test_a_problem_counts_if_any_of_its_responses_reflects():
    by_problem = {
        0: group(0, [0, 0], [PLAIN, REFLECTS]),
        1: group(1, [0, 0], [PLAIN, PLAIN]),
        2: group(2, [0, 0], [REFLECTS, REFLECTS]),
        3: group(3, [1, 1], [PLAIN, REFLECTS]),
    }
    none_wrong, one_wrong, both_wrong = reflections_by_difficulty(by_problem, num_samples=2)
    assert none_wrong == (0, 1, 1.0, pytest.approx(0.025), 1.0)  # of one problem little is known
    assert one_wrong == (1, 0, None, None, None)
    assert both_wrong[:3] == (2, 3, pytest.approx(2 / 3))
    # Clopper and Pearson: with the share at an end, 2 of 3 or more, or fewer, have 2.5 %
    low, high = both_wrong.low, both_wrong.high
    assert 3 * low**2 * (1 - low) + low**3 == pytest.approx(0.025)
    assert 1 - high**3 == pytest.approx(0.025)


def test_difficulty_is_the_number_of_wrong_responses_among_six():
    levels = reflections_by_difficulty(
        problems([[1] * (6 - wrong) + [0] * wrong for wrong in range(7)])
    )
    assert [(level.difficulty, level.num_problems) for level in levels] == [
        (d, 1) for d in range(7)
    ]


def test_of_more_samples_the_first_are_taken():
    by_problem = {0: group(0, [1, 0, 0], [PLAIN, PLAIN, REFLECTS])}
    assert reflections_by_difficulty(by_problem, num_samples=2)[1] == (
        1,
        1,
        0.0,
        0.0,
        pytest.approx(0.975),
    )


def test_keywords_are_replaceable():
    by_problem = {0: group(0, [1], ["Wait, no."])}
    assert reflections_by_difficulty(by_problem, num_samples=1)[0].frequency == 0
    levels = reflections_by_difficulty(by_problem, num_samples=1, keywords=["Wait"])
    assert levels[0].frequency == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"num_samples must be in \[1, 3\], the fewest samples of a problem, got 6: lower it"),
        ({"num_samples": 0}, r"num_samples must be in \[1, 3\]"),
        ({"num_samples": 3, "keywords": []}, "keywords must hold at least one text, got none"),
    ],
)
def test_a_mistake_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        reflections_by_difficulty(problems([[1, 1, 0]]), **options)
