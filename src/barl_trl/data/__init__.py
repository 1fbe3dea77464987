"""Data sets of problems: rows -> `{"prompt", "solution"}`, checked, selected and decontaminated."""

from .loading import PAPER_SYSTEM_PROMPT, DataReport, load_problems

__all__ = ["PAPER_SYSTEM_PROMPT", "DataReport", "load_problems"]
