"""The analyses of `barl analyze`, one per module: files in, tables and figures out."""
