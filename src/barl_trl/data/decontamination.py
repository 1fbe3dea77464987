"""Which training problems are also evaluation problems."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

_NGRAM = 10
_MATCHED_SHARE = 0.6

_WORD = re.compile(r"[^\W_]+|[-+*/=<>^%!|]")


class EvaluationProblems:
    """Evaluation problems by the words they consist of.

    A text is one of them if its words are the same, or if both share a run of 10 words and more
    than 60 % of the evaluation problem's words stand in the text, in the same order. The two
    conditions are those of Cosmopedia (https://github.com/huggingface/cosmopedia), which asks for
    50 %; but the "find m + n" sentence of competitions is more than half of some problems.
    Words are compared in small letters, without punctuation, braces, dollars and backslashes;
    numbers and signs of arithmetic count as words. `sets` has the texts by the name of their set.

    Example:
        >>> held_out = EvaluationProblems({"mine": ["How many apples are 3 + 4 apples?"]})
        >>> held_out.sets_with("How many apples are $3 + 4$ apples"), held_out.sets_with("3 + 4?")
        (['mine'], [])
    """

    def __init__(self, sets: Mapping[str, Sequence[str]]):
        self._problems = [(name, _words(text)) for name, texts in sets.items() for text in texts]
        self._names = list(sets)
        self._by_text: dict[str, set[str]] = defaultdict(set)
        self._by_ngram: dict[str, set[int]] = defaultdict(set)
        for place, (name, words) in enumerate(self._problems):
            if words:
                self._by_text[" ".join(words)].add(name)
            for ngram in _ngrams(words):
                self._by_ngram[ngram].add(place)

    def sets_with(self, text: str) -> list[str]:
        """Return the names of the sets that have the text, in the order of the sets."""
        words = _words(text)
        matching = set(self._by_text.get(" ".join(words), ()))
        shared = self._by_ngram.keys() & _ngrams(words)
        for place in {place for ngram in shared for place in self._by_ngram[ngram]}:
            name, problem = self._problems[place]
            if name not in matching and _is_mostly_in(problem, words):
                matching.add(name)
        return [name for name in self._names if name in matching]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _ngrams(words: Sequence[str]) -> set[str]:
    return {" ".join(words[k : k + _NGRAM]) for k in range(len(words) - _NGRAM + 1)}


def _is_mostly_in(problem: Sequence[str], words: Sequence[str]) -> bool:
    least = _MATCHED_SHARE * len(problem)
    if (Counter(problem) & Counter(words)).total() <= least:  # fast, in any order of the words
        return False
    blocks = SequenceMatcher(None, problem, words, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) > least
