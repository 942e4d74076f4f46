"""The papers' tables and figures from sample logs of lm-eval; `write.make_report` builds them."""
