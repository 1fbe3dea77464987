"""Every response to a benchmark, generated and graded, also where a run goes on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..graders import Grader
from .benchmarks import Problem
from .decoding import Drawing
from .generation import Backend, CompletionTokens, Job, seed_of
from .responses import Response, ResponseFile
from .templates import Template


class Evaluator:
    """Generate and grade the responses to benchmarks.

    Args:
        backend: Generates.
        tokenizer: The model's.
        template: Makes prompts.
        grader: Judges.
        output_dir: Folder of the response files.
        num_samples: Responses to each problem.
        seed: Seed of all samples.
        drawing: How the backend draws tokens, which is noted with every response.
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Any,
        template: Template,
        grader: Grader,
        *,
        output_dir: Path,
        num_samples: int,
        seed: int,
        drawing: Drawing | None = None,
    ):
        self.backend, self.tokenizer = backend, tokenizer
        self.template, self.grader = template, grader
        self.output_dir, self.num_samples, self.seed = output_dir, num_samples, seed
        self.drawing = drawing and drawing.settings

    def run(
        self, name: str, problems: Sequence[Problem], progress: Callable[[int, int], None]
    ) -> list[Response]:
        """Return the responses to a benchmark: those of an earlier run, and the missing ones.

        Args:
            name: The benchmark's name.
            problems: Its problems.
            progress: Called with the number of responses that are done, and that of all.

        Raises:
            ValueError: The earlier run had other problems or prompts, or drew tokens otherwise.
        """
        file = ResponseFile(self.output_dir / f"{name}.jsonl")
        by_id = {problem.id: problem for problem in problems}
        prompts = {i: self.template.prompt(self.tokenizer, p.text) for i, p in by_id.items()}
        for key, response in file.responses.items():
            if key[0] in by_id and (response.problem, response.solution, response.prompt) != (
                *by_id[key[0]][1:],
                prompts[key[0]],
            ):
                raise ValueError(
                    f"benchmarks must hold the problems that {self.output_dir} has responses "
                    f"to, got another problem or prompt {key[0]} in {name}: choose another "
                    "output_dir."
                )
            if response.drawing not in (None, self.drawing):
                raise ValueError(
                    f"responses must be drawn as those in {self.output_dir / name}.jsonl, by "
                    f"{response.drawing}, got {self.drawing}: choose another output_dir."
                )
        keys = [(i, sample) for i in by_id for sample in range(self.num_samples)]
        jobs = [
            Job(
                key,
                self.template.encode(self.tokenizer, prompts[key[0]]),
                seed_of(self.seed, name, key),
            )
            for key in keys
        ]
        done = set(file.responses)
        count = len(done.intersection(keys))
        progress(count, len(keys))
        for batch in self.backend.complete(jobs, done):
            new = [(job, completion) for job, completion in batch if job.key not in done]
            file.append(self._responses(name, by_id, prompts, new))
            count += len(new)
            progress(count, len(keys))
        return [file.responses[key] for key in keys]

    def _responses(
        self,
        benchmark: str,
        problems: dict[int, Problem],
        prompts: dict[int, str],
        batch: Sequence[tuple[Job, CompletionTokens]],
    ) -> list[Response]:
        texts = [
            self.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
            for _, completion in batch
        ]
        solutions = [problems[job.key[0]].solution for job, _ in batch]
        answers = [self.grader.extract_answer(text) for text in texts]
        verdicts: Any = self.grader.grade(zip(solutions, answers, strict=True))
        return [
            Response(
                benchmark=benchmark,
                problem_id=job.key[0],
                sample=job.key[1],
                problem=problems[job.key[0]].text,
                solution=solution,
                prompt=prompts[job.key[0]],
                response=text,
                tokens=len(completion.token_ids),
                truncated=completion.truncated,
                answer=answer,
                reward=float(verdict.correct),
                reason=verdict.reason,
                drawing=self.drawing,
            )
            for (job, completion), solution, text, answer, verdict in zip(
                batch, solutions, texts, answers, verdicts, strict=True
            )
        ]
