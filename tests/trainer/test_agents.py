"""Agents: TRL's real loop of tools and environments, and rollout functions of several turns."""

import pytest
import torch
from datasets import Dataset

from barl_trl.rewards import accuracy_reward

from ..tiny import tiny_model
from .playing import Keeping, agent_config, agent_tokenizer, call, played

QUESTION = [{"role": "user", "content": "What is 3 times 4?"}]
ROWS = [{"prompt": QUESTION, "solution": "12"}] * 4


def look(key: int) -> str:
    """Look up a key.

    Args:
        key: The key.

    Returns:
        Its value.
    """
    return r"it is \boxed{12}, <think> and <|im_end|> or </tool_call>" + "!" * key


def agent(
    tmp_path, family="qwen2_5", *, cls=Keeping, rows=ROWS, reward_funcs=accuracy_reward, **kwargs
):
    fields = {name: kwargs.pop(name) for name in [*kwargs] if hasattr(agent_config(tmp_path), name)}
    tokenizer = agent_tokenizer(family)
    model = tiny_model(tokenizer)
    model.config.max_position_embeddings = 4096
    size = {"per_device_train_batch_size": len(rows), "num_generations": 4}
    return cls(
        model,
        reward_funcs,
        agent_config(tmp_path, **size | fields),
        Dataset.from_list(rows),
        processing_class=tokenizer,
        **kwargs,
    )


FAMILIES = ["qwen2_5", "qwen3", "llama3_1"]


def plays(family="qwen2_5"):
    def c(key):
        return call("look", family, key=key)

    return [
        [c(0), r"So \boxed{12}"],
        [c(1), c(2), "I do not know"],
        [r"At once \boxed{7}"],
        [c(3), r"It is \boxed{2}"],
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_are_turns_and_only_the_models_tokens_have_weights(tmp_path, family):
    trainer = agent(tmp_path, family, tools=[look], value_normalization="none", step_size=99)
    output = played(trainer, ROWS, plays(family))
    scored, generated = trainer.scored, trainer.generated
    assert trainer.script.calls == [4, 3, 1]
    assert [*map(len, scored.turns)] == [2, 3, 1, 2]
    assert scored.answers == ["12", None, "7", "2"]
    assert trainer._batch.rewards_per_func[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    for n, (ids, mask) in enumerate(zip(generated.completion_ids, generated.masks, strict=True)):
        weights = output["advantages"][n][: len(ids)]
        assert not weights[[k for k, own in enumerate(mask) if not own]].any()
        starts = [k for k in range(1, len(ids)) if mask[k] and not mask[k - 1]]
        ends = scored.step_ends[n]
        assert ends == [*starts, len(ids) - 1]
        for start, end in zip([0, *ends], ends, strict=False):
            own = [weights[k].item() for k in range(start, end) if mask[k]]
            assert len({*own}) == 1


def test_what_others_say_changes_no_step_and_no_elicitation(tmp_path):
    trainer = agent(tmp_path, "qwen3", tools=[look], step_size=99)
    played(trainer, ROWS, plays())
    asked = trainer.scorer.elicitation
    prompts, generated = trainer.generated.prompt_ids, trainer.generated
    for n in range(4):
        ends, mask = trainer.scored.step_ends[n], generated.masks[n]
        assert all(end == len(mask) or mask[end] for end in ends)
        starts = [0, *(turn.stop for turn in trainer.scored.turns[n] if turn.has_observation)]
        rollout = asked.rollout(
            prompts[n], generated.completion_ids[n], ends, ["1"], mask=mask, turn_starts=starts
        )
        texts = [
            trainer._tokenizer.decode(rollout.elicitation(state, asked.token_ids))
            for state in range(len(ends) + 1)
        ]
        bare = "Based on the above reasoning, the final answer is \\boxed"
        last = "\n" + bare  # within the last turn
        assert texts == [bare] * len(ends) + [last]


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_the_cache_of_generation_serves_unequal_numbers_of_turns(tmp_path, method):
    trainer = agent(tmp_path, tools=[look])
    played(trainer, ROWS, plays())
    got = trainer.scored.likelihoods
    again = agent(tmp_path, tools=[look], scoring_method=method)
    again.model.load_state_dict(trainer.model.state_dict())
    expected = again.scorer.score(
        again.model,
        trainer.generated._replace(cache=None),
        ["12"] * 4,
        start=0,
        group_size=4,
        score_completions=False,
        completion_temperature=1.0,
        max_tokens=None,
    ).likelihoods
    torch.testing.assert_close(got.answer_logps, expected.answer_logps, atol=1e-5, rtol=0)
    tokens = sum(len(ids) for ids in trainer.generated.completion_ids)
    assert expected.num_tokens - got.num_tokens > tokens - 20


def test_old_logps_are_those_of_trl(tmp_path):
    fields = {"steps_per_generation": 2, "per_device_train_batch_size": 2, "num_iterations": 2}
    trainer = agent(tmp_path, tools=[look], **fields)
    output = played(trainer, ROWS, plays())
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    number = output["completion_ids"].shape[1]
    trainer._batch.asks_for_old_logps = False
    with torch.no_grad():
        logps, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, number)
    own = (output["completion_mask"] * output["tool_mask"]).bool()
    torch.testing.assert_close(output["old_per_token_logps"][own], logps[own], atol=1e-5, rtol=0)
