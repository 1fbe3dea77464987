"""The didactic example's rewards and policy, against `synthetic.triplets`."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.synthetic.triplets import ALL_TRIPLETS, NUM_STEPS, completed, hypotheses
from experiments.triplets.episodes import (
    accuracies,
    hypothesis_rewards,
    make_model,
    make_tokenizer,
    rows,
    solved,
)

texts = st.text("012", min_size=3, max_size=NUM_STEPS)


def digits(text):
    return [*map(int, text)]


@given(texts, st.integers(0, 2), st.data())
def test_a_step_pays_the_triplets_that_it_completes_for_the_first_time(text, prompt, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    triplets = hypotheses(torch.tensor([prompt]), ALL_TRIPLETS)
    steps = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    listed = ["".join(map(str, triplet)) for triplet in triplets[0].tolist()]
    [rewards] = hypothesis_rewards([listed], [steps])
    done = completed(torch.tensor([digits(text)]), triplets)[0, [0, *cuts, len(text)]].int()
    np.testing.assert_array_equal(rewards, done.diff(dim=0).numpy())
    [reward] = solved([text], [listed[0]])
    assert reward == rewards[:, 0].sum()


def test_no_step_and_an_empty_step_pay_nothing():
    first, second = hypothesis_rewards([["000", "111"]] * 2, [[], [""]])
    assert first.shape == (0, 2) and second.tolist() == [[0, 0]]


def test_the_policy_is_uniform_over_actions_and_all_prompts_are_alike_at_first():
    model, tokenizer = make_model(0), make_tokenizer()
    ids = torch.tensor(tokenizer([row["prompt"] + "0120" for row in rows(range(3), ())]).input_ids)
    assert tokenizer.batch_decode(ids) == ["a0120", "b0120", "c0120"]
    with torch.no_grad():
        output = model(ids, output_hidden_states=True)
    expected = torch.tensor([1 / 3] * 3 + [0.0] * 4).expand(3, 5, 7)
    torch.testing.assert_close(output.logits.softmax(-1), expected)
    hidden = output.hidden_states[-1]
    torch.testing.assert_close(hidden, hidden[:1].expand_as(hidden))


def test_accuracies_are_shares_of_solved_completions():
    model = make_model(0)
    model.lm_head.bias.data[1] = 50.0
    assert accuracies(model, make_tokenizer(), 4) == [0.0, 1.0, 0.0]
