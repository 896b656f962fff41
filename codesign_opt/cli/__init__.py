"""The command line: parse, call, print. `main` assembles the commands; each group is a module of its own."""
