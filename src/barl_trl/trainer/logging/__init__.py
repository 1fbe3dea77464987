"""Metrics, tables, records and warnings of a run; nothing here changes a weight."""
