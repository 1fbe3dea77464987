"""What TRL generated, as one record: tokens, turns, and the answers that agents gave.

TRL runs the loop of tools and environments, or a `rollout_func` does. What they return is read
here, and which tokens end the model's turns is decided here.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import compress, dropwhile, groupby, takewhile
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from accelerate.utils import gather_object
from trl import is_conversational

from ..hypotheses import plain_text
from ..rewards import Completion, GivenAnswer, calls_tool
from ..steps import Turn, turns_of
from .boundary import readable

ROLLOUT_ANSWER = "rollout_answer"
"""Column in which reward functions get the answers that agents gave, [`GivenAnswer`]s."""
HEARD = "_heard"
"""Field of a `rollout_func` that knows what was said behind the turns of each rollout."""
_SAID = "made-up words"


class Generated(NamedTuple):
    """This process's generated rollouts, one item of each list per rollout."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    completions: list[Any]
    """The completions as texts or messages."""
    masks: list[list[int]] | None = None
    """1 for each completion token that the model wrote, else 0; None if it wrote all."""
    turns: list[list[Turn]] | None = None
    """The turns of each completion; None: each completion is one turn."""
    given_answers: list[GivenAnswer | None] | None = None
    """Answers that environments or a `rollout_func` tell; None: all are read from completions."""
    has_tools: bool = False
    """Whether the model could call tools, so that its prompts, too, are starts of turns."""
    environments: list[Any] | None = None
    """The environment of each rollout, as it is at the rollout's end."""
    ended: Collection[int] = ()
    """The rollouts that a tool ended; the results of their last calls end their messages."""
    turn_rewards: list[list[float]] | None = None
    """Reward of each step, NaN where none is told; None: there is none."""

    def is_cut_off(
        self, n: int, turns: Sequence[Turn], answer: str | None, args: Any, end_ids: Collection[int]
    ) -> bool:
        """Return whether a rollout reached the longest completion before its end.

        So did one whose last call has no room for its result. One that has used up its calls, or
        that a `rollout_func` ended behind an observation, was ended by the task.
        """
        ids, most = self.completion_ids[n], args.max_tool_calling_iterations
        is_call = self.has_tools and answer is None and calls_tool(self.completions[n])
        if not turns or (is_call and (most is None or len(turns) <= most)):
            return True
        if turns[-1].has_observation:  # the model has not taken its next turn
            return ids[-1] not in end_ids and len(ids) >= (args.max_completion_length or math.inf)
        return turns[-1].end == len(ids)


class Episode(NamedTuple):
    """What an agent did with one problem."""

    prompt: Completion
    """The text or messages with which it began, with what the environment's `reset` told."""
    completion: Completion
    """The messages of all turns, or the text if there are no tools."""
    text: str
    """What the model wrote in all turns, with line breaks for what others wrote."""
    token_ids: list[int]
    """Token ids of the completion, with what others wrote."""
    own_tokens: list[int]
    """1 for each token of the completion that the model wrote, 0 for the others."""
    num_tokens: int
    """Number of tokens that the model wrote, without the one that ends its last turn."""
    is_cut_off: bool
    """Whether it reached the longest completion before its end."""
    given_answer: GivenAnswer | None
    """The answer that its environment or the `rollout_func` tells; None: the completion has it."""


def read_generated(trainer: Any, prompts: Sequence[Any], output: Sequence[Any]) -> Generated:
    """Read what TRL's `_generate` returned for prompts.

    An environment says which answer an agent gave with its attribute or property `answer`, a
    `rollout_func` with its field `answer`; None is no answer.

    It logs `barl/turns_per_rollout`, and with tools `barl/ended_by_tool`, `barl/ended_in_call`,
    `barl/at_turn_limit`, `barl/no_room_for_result`, `barl/malformed_calls` and, of the first batch
    with results, `barl/template_mismatch` (docs/metrics.md).

    Raises:
        ValueError: A tool returned an image, or a `rollout_func` does not mark what others wrote.
    """
    prompt_ids, completion_ids, masks, completions, _, columns, *images = output
    for n, results in trainer._last_results.items():  # TRL had no room for them
        completions[n] += results
    completions = readable(completions)  # the JSON of a call may escape what cannot be written
    if any(map(any, images[-1])):
        raise ValueError("tools must return texts, got an image: return a description.")
    end_ids, ended = trainer.turn_end_ids, {*trainer._last_results}
    own_masks = masks or [[1] * len(ids) for ids in completion_ids]
    counts = [*map(len, [prompts, completion_ids, own_masks, columns.get("answer", prompts)])]
    if min(counts) < max(counts) or [*map(len, own_masks)] != [*map(len, completion_ids)]:
        rule = "return ids, an env_mask of their length, and an answer if any, for each prompt"
        raise ValueError(f"rollout_func must {rule}, got {counts[1:]} for {counts[0]} prompts.")
    turns_in = partial(turns_of, end_ids=end_ids, runs_are_turns=bool(trainer.tools))
    turns = [*map(turns_in, completion_ids, own_masks)]
    if trainer.rollout_func is not None:  # else TRL says where turns end
        _refuse_unmasked(completion_ids, own_masks, turns, end_ids)
    given: Any = [*map(told_answer, trainer.environments or ())]
    if not trainer.environments and "answer" in columns:
        given = [*map(_given, columns["answer"])]
    others = masks, turns, given if any(given) else None, bool(trainer.tools), trainer.environments
    generated = Generated(prompt_ids, completion_ids, completions, *others, ended)
    if masks and not trainer.tools:  # TRL's completions hold the text of others, too
        heard = columns.pop(HEARD, None) or [None] * len(masks)
        own = [_own_completion(trainer, generated, n, told) for n, told in enumerate(heard)]
        generated = generated._replace(completions=own)
    if masks:
        _log_turns(trainer, generated, turns)
    if trainer.tools and trainer.model.training and not trainer.has_compared:
        _compare_with_template(trainer, prompts, generated)
    return generated


def episodes_of(prompts: Sequence[Completion], generated: Generated, trainer: Any) -> list[Episode]:
    """Return what an agent did with each prompt."""
    masks = generated.masks or [[1] * len(ids) for ids in generated.completion_ids]
    given = generated.given_answers or [None] * len(masks)
    columns = generated.completions, generated.completion_ids, masks, generated.turns or (), given
    episodes = []
    for n, (prompt, said, ids, mask, turns, told) in enumerate(zip(prompts, *columns, strict=True)):
        own_mask = mask[: turns[-1].end] if turns else []
        text = _own_text(ids[: len(own_mask)], own_mask, trainer._tokenizer)
        answer = told and told.answer
        is_cut = generated.is_cut_off(n, turns, answer, trainer.args, trainer.turn_end_ids)
        episodes.append(Episode(prompt, said, text, ids, mask, sum(own_mask), is_cut, told))
    return episodes


def _log_turns(trainer: Any, generated: Generated, turns: Sequence[Sequence[Turn]]) -> None:
    completions, completion_ids = generated.completions, generated.completion_ids
    shares: dict[str, list[float]] = {"turns_per_rollout": [*map(len, turns)]}
    if generated.has_tools:
        names = ("ended_in_call", "at_turn_limit", "no_room_for_result", "malformed_calls")
        shares |= {name: [] for name in names}
        shares["ended_by_tool"] = [n in generated.ended for n in range(len(turns))]
        tokenizer = trainer._tokenizer
        opening = call_opening(tokenizer, trainer.chat_template)
        most = trainer.max_tool_calling_iterations
        columns = completions, completion_ids, turns, shares["ended_by_tool"]
        for completion, ids, spans, is_ended in zip(*columns, strict=True):
            is_call, is_last = calls_tool(completion), len(spans) > most
            is_seen = bool(spans) and spans[-1].has_observation
            text = tokenizer.decode(ids[spans[-1].start :]) if spans else ""
            is_read = is_call or is_seen or is_ended
            is_like_call = bool(opening) and opening in text and not is_read
            no_room = (is_call and not is_last) or is_seen
            values = is_call, is_call and is_last, no_room, is_like_call
            for name, value in zip(names, values, strict=True):
                shares[name].append(value)
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    for name, values in shares.items():
        metrics[f"barl/{name}"].append(fmean(gather_object(values)))


def _compare_with_template(trainer: Any, prompts: Sequence[Any], generated: Generated) -> None:
    """Log the share of rollouts that read something else than the template writes, and say what."""
    found = [*map(partial(_difference, trainer), prompts, *generated[:3], generated.turns or ())]
    if found := [one for one in gather_object(found) if one is not None]:
        trainer.has_compared = True
        trainer._metrics["train"]["barl/template_mismatch"].append(fmean(map(bool, found)))
        trainer._say_once("template", max(found, key=bool))


def _difference(
    trainer: Any, prompt: Any, prompt_ids: Any, ids: Any, messages: Any, turns: Sequence[Turn]
) -> str | None:
    """Return how what stands before a rollout's last turn is not what the chat template writes.

    The token that ends the turn before is compared, other words of the model are not. It is "" if
    there is no difference, and None if that cannot be known.
    """
    tokenizer, seen = trainer._tokenizer, [turn for turn in turns if turn.has_observation]
    if turns and not turns[-1].has_observation:  # the model did not read what ended it
        messages = [*dropwhile(lambda one: one["role"] == "tool", reversed(messages))][::-1]
    number = max((n for n, one in enumerate(messages, 1) if one["role"] == "tool"), default=0)
    options = {"tools": trainer.tools, "chat_template": trainer.chat_template, "tokenize": False}
    options |= {"add_generation_prompt": True, **trainer.chat_template_kwargs}
    try:
        text = seen and tokenizer.apply_chat_template([*prompt, *messages[:number]], **options)
    except Exception:  # whatever a template makes of a call that it was not written for
        text = None
    if not text:
        return None
    written = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
    places = seen[-1].end, seen[-1].stop
    before, read = (tokenizer.decode([*prompt_ids, *ids[:place]]) for place in places)
    rest, end = written.removesuffix(read[len(before) :]), tokenizer.decode(ids[places[0]])
    is_doubled = ids[places[0]] in trainer.turn_end_ids and rest.endswith(end)
    if rest != written and not is_doubled:
        return ""
    same = _common_length(written[::-1], read[::-1])
    written, read = (text[-same - 24 :][:48] for text in (written, read))
    return (
        f"the chat template writes {written!r} where a rollout has {read!r}: the model learns with "
        "other texts than it will read (docs/agents.md)."
    )


def _refuse_unmasked(
    completion_ids: Sequence[Sequence[int]],
    masks: Sequence[Sequence[int]],
    turns: Sequence[Sequence[Turn]],
    end_ids: Collection[int],
) -> None:
    """Refuse completions in which tokens of the model follow the end of its turn at once."""
    for n, (ids, mask, spans) in enumerate(zip(completion_ids, masks, turns, strict=True)):
        for _, end, stop, _ in spans:
            if {*compress(ids[end:stop], mask[end:stop])} - {*end_ids}:
                raise ValueError(
                    f"rollout_func must give 1 in env_mask for what the model wrote in a turn, up "
                    f"to the token that ends it, and 0 for all else, got rollout {n} with an end "
                    f"of turn at token {end} of {len(ids)} and tokens of the model behind it."
                )


def _own_completion(trainer: Any, generated: Any, n: int, heard: list[str] | None) -> Completion:
    """Return a completion in which the text of the model stands apart from that of others.

    A text becomes that of the last turn, "" if another's text follows it. Messages become one for
    each turn, and one of a tool for what was `heard` behind it, or for what stands there without
    what the chat template writes around it. In a turn, line breaks stand for the tokens of others.
    """
    _, ids, completion, mask, turns = (column[n] for column in generated[:5])
    if 0 not in mask:
        return completion
    messages = []
    for start, end, stop, has_observation in turns:
        text = _own_text(ids[start:end], mask[start:end], trainer._tokenizer)
        messages.append({"role": "assistant", "content": text})
        if has_observation:
            others = [ids[place] for place in range(end, stop) if not mask[place]]
            text = heard[len(messages) // 2] if heard else _words_of_others(trainer, others)
            messages.append({"role": "tool", "content": text})
    if not isinstance(completion, str):
        return messages
    is_last_own = messages and messages[-1]["role"] == "assistant"
    return messages[-1]["content"] if is_last_own else ""


def _words_of_others(trainer: Any, ids: Sequence[int]) -> str:
    """Return the text of tokens, without what the chat template would write around it."""
    tokenizer = trainer._tokenizer
    text = tokenizer.decode(ids, skip_special_tokens=True).strip()
    for role in ("tool", "user"):  # a result may stand in a message of the user
        with suppress(Exception):  # whatever a template makes of a result without a call
            frame = tokenizer.encode(written_behind(trainer, _SAID, role), add_special_tokens=False)
            frame = tokenizer.decode(frame, skip_special_tokens=True).strip()
            before, found, behind = frame.partition(_SAID)
            if found and text.startswith(before) and text.endswith(behind):
                return text[len(before) : len(text) - len(behind)].strip()
    return text


def written_behind(trainer: Any, content: str, role: str = "user") -> str:
    """Return what the chat template writes between a turn of the model and its next one."""
    options = {"chat_template": trainer.chat_template, "add_generation_prompt": True}
    options |= trainer.chat_template_kwargs
    message = {"role": role, "content": content}
    return _written(trainer._tokenizer, options, message, content=_SAID).partition(_SAID)[2]


def call_opening(tokenizer: Any, chat_template: str | None) -> str | None:
    """Return the word with which the chat template begins a call of a tool; None if none does."""
    try:
        plain, calling = (
            _written(tokenizer, {"chat_template": chat_template}, **message)
            for message in ({}, _call("made-up"))
        )
    except Exception:  # whatever a template makes of a call that it was not written for
        return None
    same = plain[: _common_length(plain, calling)]
    before = calling.partition("made-up")[0]
    words = before[len(same.rstrip("<|")) :].split()  # both may go on with a special token
    return words[0] if words else None


def _call(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"type": "function", "function": {"name": name, "arguments": {}}}]}


def _written(tokenizer: Any, options: Any, *others: Any, **message: Any) -> str:
    """Return a message of the assistant, behind one of the user, as the chat template writes it."""
    said = {"role": "assistant", "content": ""} | message
    messages = [{"role": "user", "content": "dummy"}, said, *others]  # as in TRL
    return tokenizer.apply_chat_template(messages, tokenize=False, **options)


def _common_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def told_answer(environment: Any) -> GivenAnswer | None:
    """Return the answer that an environment tells; None if it tells none: a method is a tool."""
    try:
        answer = environment.answer
    except AttributeError:
        return None
    return None if callable(answer) else _given(answer)


def _given(answer: Any) -> GivenAnswer:
    return GivenAnswer(None if answer is None else plain_text(answer))


def _own_text(ids: Sequence[int], mask: Sequence[int], tokenizer: Any) -> str:
    """Return the text of the tokens that the model wrote, with line breaks for other tokens."""
    runs = groupby(zip(mask, ids, strict=True), key=itemgetter(0))
    own = [[token for _, token in run] for is_own, run in runs if is_own]
    return "\n".join(tokenizer.batch_decode(own, skip_special_tokens=True))


# what ends a turn


def tell_ends(trainer: Any) -> None:
    """Let the token with which the chat template ends an assistant's message end completions, too.

    TRL ends completions with the EOS tokens of the tokenizer and of the model. The template's, if
    prompts are messages, and those that `generation_kwargs` name are also given to generation, to
    the saved `generation_config`, and to `eos_token_ids`, which tells what was cut off.

    Raises:
        ValueError: The tokenizer has no chat template for messages, no token ends a message in the
            template, or `args.generation_kwargs` leaves that token out.
    """
    args, tokenizer, eos_token_ids = trainer.args, trainer._tokenizer, trainer.eos_token_ids
    ends, template_kwargs = [*eos_token_ids], args.chat_template_kwargs or {}
    if is_conversational(next(iter(trainer.train_dataset))):
        ends = turn_ends(tokenizer, eos_token_ids, **template_kwargs)
    name = "stop_token_ids" if args.use_vllm else "eos_token_id"
    users_ends = (args.generation_kwargs or {}).get(name) or []
    users_ends = [users_ends] if isinstance(users_ends, int) else users_ends
    missing = [token for token in ends[len(eos_token_ids) :] if token not in users_ends]
    if users_ends and missing and not args.use_vllm:
        raise ValueError(
            f"generation_kwargs must have {_named(missing, tokenizer)}, with which the chat "
            f"template ends a message, in its eos_token_id, or none, got {users_ends}."
        )
    ends = [*dict.fromkeys([*ends, *users_ends])]
    options = {"chat_template": trainer.chat_template, **template_kwargs}
    trainer.cut_behind_call = lru_cache(256)(partial(_cut_behind_call, tokenizer, ends, options))
    if ends == eos_token_ids:
        return
    trainer.eos_token_ids = trainer.model.generation_config.eos_token_id = ends
    generates = trainer.vllm_generation if args.use_vllm else trainer
    generates.generation_kwargs = generates.generation_kwargs | {name: ends}
    if not args.use_vllm:
        trainer.generation_config.eos_token_id = ends
    said = _named(ends[len(eos_token_ids) :], tokenizer)
    text = f"completions also end with {said}, as the chat template or generation_kwargs say."
    trainer._say_once("ends", text)


def turn_ends(tokenizer: Any, end_ids: Sequence[int], **template_kwargs: Any) -> list[int]:
    """Return the ids of the tokens that end a turn: `end_ids`, and the chat template's end token.

    That of a base model may be another token than the model's EOS: the first added token after an
    assistant's message. If a token of `end_ids` follows, that ends the turn, and none is added.

    Raises:
        ValueError: The template ends a message with mere text, which cannot end a completion.
    """
    said = "made-up"
    text = _written(tokenizer, template_kwargs, content=said)
    behind = text.rpartition(said)[2] if said in text else ""
    ids, added = tokenizer.encode(behind, add_special_tokens=False), tokenizer.added_tokens_decoder
    if not behind.strip() or set(ids) & set(end_ids):
        return [*end_ids]
    added_ids = [token for token in ids if token in added]
    if not added_ids:
        raise ValueError(
            f"chat_template must end an assistant's message with one token, as eos_token, got the "
            f"text {behind!r}: nothing would end a completion."
        )
    return [*end_ids, added_ids[0]]


def _cut_behind_call(
    tokenizer: Any, end_ids: Collection[int], options: Any, name: str
) -> tuple[list[int], int]:
    """Return the tokens that TRL leaves out before a result, and how many it has too many there.

    TRL takes for a result what the template writes behind the tokenizer's last EOS. A template may
    end a call with another token, as those of base models do, or with none.
    """
    text = _written(tokenizer, options, **_call(name))
    texts = text, text.rpartition(name)[2]
    ids, behind = (tokenizer.encode(one, add_special_tokens=False) for one in texts)
    of_trl = [place for place, token in enumerate(ids, 1) if token == tokenizer.eos_token_id]
    ends = [len(ids) - len(behind) + n for n, token in enumerate(behind, 1) if token in end_ids]
    cut, right = (places[-1] if places else len(ids) for places in (of_trl, ends))
    return ids[right:cut], max(right - cut, 0)


def _named(ids: Sequence[int], tokenizer: Any) -> str:
    names = tokenizer.convert_ids_to_tokens(ids)
    return ", ".join(f"{name} ({token})" for name, token in zip(names, ids, strict=True))
