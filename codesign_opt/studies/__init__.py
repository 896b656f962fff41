"""Studies: what is searched, and how the search is run, stored and resumed."""
