"""medfaith: audits whether medical vision-language models answer from the image.

The rooms: `loaders` (licensed sources), `builders` (benchmarks), `evaluate_metrics`, `tasks` (for lm-eval) and `cards`.
This package itself is the front door, the `medfaith` command.
"""
