"""Random rollouts of few tokens, and what is asked of them written out one by one."""

from hypothesis import strategies as st

from barl_trl.plausibility.queries import Answer, Rollout

tokens = st.integers(0, 2)  # few distinct tokens: shared prefixes and equal answers are frequent


@st.composite
def rollout_fields(draw):
    """Plain values: beartype, which checks dataclasses here, draws random numbers of its own."""
    token_ids = draw(st.lists(tokens, min_size=1, max_size=9))
    positions = sorted(draw(st.sets(st.integers(1, len(token_ids)), min_size=1)))
    answers = draw(st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4))
    scored = [(answer, draw(st.integers(0, len(answer) - 1))) for answer in answers]
    elicitation = st.lists(tokens, max_size=3)
    own = st.lists(elicitation, min_size=len(positions), max_size=len(positions))
    return token_ids, positions, scored, draw(st.none() | own)


@st.composite
def groups(draw):
    """Rollouts that have their first state in common, some with the same answers, and others."""
    token_ids, positions, scored, _ = draw(rollout_fields())
    prompt = token_ids[: positions[0]]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        completion = draw(st.lists(tokens, max_size=5))
        ends = draw(st.sets(st.integers(0, len(completion)))) | {0}
        forks = [len(prompt) + end for end in sorted(ends)]
        others = draw(st.booleans()) and [([1, 2], 0)]
        score_from = draw(st.none() | st.integers(1, len(prompt) + len(completion)))
        found.append(([*prompt, *completion], forks, others or scored, None, score_from))
    return found


def build(fields):
    token_ids, positions, scored, *options = fields
    return Rollout(token_ids, positions, [Answer(*answer) for answer in scored], *options)


def context(rollout, common, state, answer, token):
    """The tokens that stand before a token of an answer."""
    own = rollout.state_elicitations
    prefix = rollout.token_ids[: rollout.state_positions[state]]
    return [*prefix, *(common if own is None else own[state]), *answer.token_ids[:token]]


def all_reads(rollouts, common):
    """What is to be read, and the tokens that stand before it."""
    for i, rollout in enumerate(rollouts):
        for n in range(len(rollout.token_ids) - (rollout.score_from or len(rollout.token_ids))):
            position = rollout.score_from + n
            yield (i, -1, -1, n), rollout.token_ids[position], rollout.token_ids[:position]
        for state in range(len(rollout.state_positions)):
            for hypothesis, answer in enumerate(rollout.answers):
                for token in range(answer.score_from, len(answer.token_ids)):
                    before = context(rollout, common, state, answer, token)
                    yield (i, state, hypothesis, token), answer.token_ids[token], before


def history(row, place):
    """The tokens that a place of a row sees, in the order of their positions."""
    seen = [k for k in range(place + 1) if place < row.subtree_ends[k]]
    assert [row.position_ids[k] for k in seen] == list(range(len(seen)))
    return [row.token_ids[k] for k in seen]
