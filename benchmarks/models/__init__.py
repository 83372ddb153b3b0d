"""How fast whole models run: untuned, tuned, and on other runtimes."""
