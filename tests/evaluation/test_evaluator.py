"""Responses are generated, graded and kept, also where a run was broken off and goes on."""

from functools import partial
from itertools import islice

import pytest

from barl_trl.evaluation.benchmarks import Problem
from barl_trl.evaluation.evaluator import evaluate
from barl_trl.evaluation.generation.backends import (
    CompletionTokens,
    Decoding,
    TransformersBackend,
)
from barl_trl.evaluation.generation.decoding import Drawing
from barl_trl.evaluation.generation.templates import TEMPLATES
from barl_trl.evaluation.responses import Response, read_response_file
from barl_trl.graders import get_grader

PROBLEMS = [Problem(0, "1 + 1?", "2"), Problem(3, "Half of one?", r"\frac{1}{2}")]
TEXTS = {
    (0, 0): r"It is \boxed{2}",
    (0, 1): r"\boxed{2}, or is it \boxed{3}",
    (3, 0): r"\boxed{0.5}",
    (3, 1): "no idea",
}


class Given:
    """A backend that hands out texts, the last one first, and notes what it was asked for."""

    def __init__(self, tokenizer, texts=TEXTS):
        self.tokenizer, self.texts = tokenizer, texts

    def complete(self, jobs, done):
        self.jobs, self.done = jobs, set(done)
        for job in reversed(jobs):
            token_ids = self.tokenizer.encode(self.texts[job.key])
            yield [(job, CompletionTokens(token_ids, truncated=job.key == (3, 1)))]


@pytest.fixture
def evaluator(tokenizer, tmp_path):
    def make(backend=None, *, folder=".", template="plain", num_samples=2):
        (tmp_path / folder).mkdir(exist_ok=True)
        return partial(
            evaluate,
            backend=backend or Given(tokenizer),
            tokenizer=tokenizer,
            template=TEMPLATES[template],
            grader=get_grader("math_verify"),
            output_dir=tmp_path / folder,
            num_samples=num_samples,
            seed=7,
        )

    return make


def run(evaluator, problems=PROBLEMS, name="sums"):
    """Its responses, and what it said of its progress."""
    progress = []
    return evaluator(name, problems, progress=lambda *counts: progress.append(counts)), progress


def test_a_response_says_what_was_asked_what_was_written_and_whether_it_is_right(
    evaluator, tokenizer, tmp_path
):
    responses, _ = run(evaluator())
    assert responses[1] == Response(
        benchmark="sums",
        problem_id=0,
        sample=1,
        problem="1 + 1?",
        solution="2",
        prompt="1 + 1?\n",
        response=r"\boxed{2}, or is it \boxed{3}",
        tokens=len(tokenizer.encode(r"\boxed{2}, or is it \boxed{3}")),
        truncated=False,
        answer="3",
        reward=0.0,
        reason=responses[1].reason,
    )
    assert [response.reward for response in responses] == [1.0, 0.0, 1.0, 0.0]
    last = responses[3]
    assert (last.answer, last.reason, last.truncated) == (None, "no answer", True)
    assert read_response_file(tmp_path / "sums.jsonl") == responses


def test_responses_come_in_the_order_of_problems_and_samples_however_they_were_made(evaluator):
    responses, progress = run(evaluator())
    assert [response.key for response in responses] == [(0, 0), (0, 1), (3, 0), (3, 1)]
    assert progress == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_backend_is_asked_with_the_templates_prompt_and_a_seed_for_each_sample(
    evaluator, tokenizer
):
    backend = Given(tokenizer)
    run(evaluator(backend, template="qwen2.5-math"))
    template = TEMPLATES["qwen2.5-math"]
    assert [job.key for job in backend.jobs] == [*TEXTS]
    assert len({job.seed for job in backend.jobs}) == len(TEXTS)
    assert backend.jobs[0].seed == 1596064283  # on every machine
    for job, text in zip(backend.jobs, ["1 + 1?"] * 2 + ["Half of one?"] * 2, strict=True):
        assert tokenizer.decode(job.prompt_ids) == template.prompt(tokenizer, text)


class BrokenOff:
    """A backend that fails behind some batches."""

    def __init__(self, backend, batches):
        self.backend, self.batches = backend, batches

    def complete(self, jobs, done):
        yield from islice(self.backend.complete(jobs, done), self.batches)
        raise RuntimeError("broken off")


def test_a_run_that_was_broken_off_goes_on_to_the_same_responses(
    evaluator, model_path, tokenizer, tmp_path
):
    """With half a batch and half a line in the file: the whole batch is made again."""
    decoding = Decoding([tokenizer.eos_token_id], 6, Drawing(1.0), batch_size=2)
    backend = TransformersBackend(model_path, decoding)
    whole, _ = run(evaluator(backend, folder="whole", num_samples=3))
    with pytest.raises(RuntimeError, match="broken off"):
        run(evaluator(BrokenOff(backend, 2), folder="broken", num_samples=3))
    path = tmp_path / "broken" / "sums.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    responses, progress = run(evaluator(backend, folder="broken", num_samples=3))
    assert responses == whole
    assert len({response.response for response in whole}) > 1
    assert progress == [(3, 6), (4, 6), (6, 6)]
    assert len(path.read_text().splitlines()) == 6


def test_more_problems_and_samples_are_added_and_fewer_are_chosen(evaluator, tokenizer, tmp_path):
    run(evaluator(num_samples=1), PROBLEMS[:1])
    backend = Given(tokenizer)
    responses, progress = run(evaluator(backend))
    assert backend.done == {(0, 0)}
    assert progress[0] == (1, 4)
    assert run(evaluator(num_samples=1), PROBLEMS[1:])[0] == [responses[2]]
    assert read_response_file(tmp_path / "sums.jsonl") == responses


@pytest.mark.parametrize(
    ("problem", "template"),
    [
        (PROBLEMS[0]._replace(text="1 + 2?"), "plain"),
        (PROBLEMS[0]._replace(solution="3"), "plain"),
        (PROBLEMS[0], "qwen2.5-math"),
    ],
    ids=["text", "true answer", "prompt"],
)
def test_responses_to_another_problem_or_prompt_are_refused(evaluator, problem, template):
    run(evaluator())
    message = "benchmarks must hold the problems that .* has responses to, got .* prompt 0 in sums"
    with pytest.raises(ValueError, match=message):
        run(evaluator(template=template), [problem])
