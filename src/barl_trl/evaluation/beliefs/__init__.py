"""Beliefs and values of responses, under any checkpoint."""
