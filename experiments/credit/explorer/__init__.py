"""The demo's decisions without language: an explorer with six parameters."""
