"""The papers' tables and figures, computed from the files that lm-eval wrote: `write.write_report` makes them."""
