"""The legality rules, a module for each thing they are about; `strategies.legality` judges by them."""
