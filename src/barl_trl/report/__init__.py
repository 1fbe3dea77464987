"""Figures from the files of a run: files in, files out."""
