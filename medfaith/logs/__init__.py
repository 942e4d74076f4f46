"""The files that lm-eval wrote: `files` finds them, `lines` reads sample logs into runs. They know no benchmark."""
