"""A race that anyone can run: `python -m tahoe_race` asks tahoe and its peers the same questions, turn by turn.

Each engine runs in processes and an environment of its own, by its public interface, and answers are compared before
times are. The result is a page with charts, also where tahoe loses, and the raw numbers beside it. `tahoe_race` needs
the standard library alone, and installs the engines.
"""
