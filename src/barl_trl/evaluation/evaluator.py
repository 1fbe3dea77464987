"""Generation and grading of the responses to a benchmark, from where an earlier run stopped."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from ..graders import Grader
from .benchmarks import Problem
from .generation.backends import Backend, Job
from .generation.decoding import Drawing
from .generation.templates import Template
from .responses import Response, ResponseFile


def evaluate(
    name: str,
    problems: Sequence[Problem],
    *,
    backend: Backend,
    tokenizer: Any,
    template: Template,
    grader: Grader,
    output_dir: Path,
    num_samples: int,
    seed: int,
    drawing: Drawing | None = None,
    progress: Callable[[int, int], None],
    is_writer: bool = True,
) -> list[Response]:
    """Generate and grade the responses that a benchmark lacks, and return all of them.

    They are in the order of problems and samples.

    Args:
        name: The benchmark's name, also of its file in `output_dir`.
        problems: The benchmark's problems.
        backend: Generates the responses.
        tokenizer: The model's tokenizer.
        template: Makes the prompts.
        grader: Reads and judges the answers.
        output_dir: Folder of the response files.
        num_samples: Number of responses to each problem.
        seed: Seed of all samples.
        drawing: How the backend draws tokens. It is noted with every response.
        progress: Called with the number of responses that are done, and the number of all.
        is_writer: Whether this process grades and writes. Of processes that generate together, one
            does; the others return nothing.

    Raises:
        ValueError: The earlier run had other problems or prompts, or drew tokens otherwise.
    """
    file = ResponseFile(output_dir / f"{name}.jsonl", is_writer=is_writer)
    settings = drawing and drawing.settings
    by_id = {problem.id: problem for problem in problems}
    prompts = {i: template.prompt(tokenizer, problem.text) for i, problem in by_id.items()}
    for (i, _), response in file.responses.items():
        asked = response.problem, response.solution, response.prompt
        if i in by_id and asked != (by_id[i].text, by_id[i].solution, prompts[i]):
            raise ValueError(
                f"benchmarks must hold the problems that {output_dir} has responses to, got "
                f"another problem or prompt {i} in {name}: choose another output_dir."
            )
        if response.drawing not in (None, settings):
            raise ValueError(
                f"responses must be drawn as those in {output_dir / name}.jsonl, by "
                f"{response.drawing}, got {settings}: choose another output_dir."
            )
    keys = [(i, sample) for i in by_id for sample in range(num_samples)]
    jobs = []
    for key in keys:
        prompt_ids = template.encode(tokenizer, prompts[key[0]])
        # the seed differs between samples but not between machines
        jobs.append(Job(key, prompt_ids, crc32(f"{seed} {name} {key}".encode()), by_id[key[0]]))
    done = set(file.responses)
    count = len(done.intersection(keys))
    progress(count, len(keys))
    for batch in backend.complete(jobs, done):
        if not is_writer:
            continue
        new = [(job.key, completion) for job, completion in batch if job.key not in done]
        texts = [completion.text(tokenizer) for _, completion in new]
        solutions = [by_id[i].solution for (i, _), _ in new]
        answers = [
            completion.answer(text, grader.extract_answer)
            for (_, completion), text in zip(new, texts, strict=True)
        ]
        verdicts: Any = grader.grade(zip(solutions, answers, strict=True))
        file.append(
            Response(
                benchmark=name,
                problem_id=i,
                sample=sample,
                problem=by_id[i].text,
                solution=by_id[i].solution,
                prompt=prompts[i],
                response=text,
                tokens=completion.num_tokens,
                truncated=completion.truncated,
                answer=answer,
                reward=float(verdict.correct),
                reason=verdict.reason,
                drawing=settings,
                messages=completion.messages,
                token_ids=completion.token_ids if completion.own_tokens is not None else None,
                own_tokens=completion.own_tokens,
            )
            for ((i, sample), completion), text, answer, verdict in zip(
                new, texts, answers, verdicts, strict=True
            )
        )
        count += len(new)
        progress(count, len(keys))
    return [file.responses[key] for key in keys] if is_writer else []
