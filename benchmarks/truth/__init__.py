"""Whether what the product says of an answer is true, checked by switching one thing at a time."""
