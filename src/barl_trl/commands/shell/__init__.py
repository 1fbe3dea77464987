"""What all commands share: options, recipes, mistakes, tables, interruptions, jobs."""
