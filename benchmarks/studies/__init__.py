"""The five studies that Stripewise follows, repeated with its own commands, and a chain that none of them has."""
