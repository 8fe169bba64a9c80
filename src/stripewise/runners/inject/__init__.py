"""How a plan reaches a program at launch."""
