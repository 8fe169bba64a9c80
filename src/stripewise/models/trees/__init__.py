"""Ensembles of trees: stored, evaluated, and the models that consist of them."""
