"""What is known of configurations: costs, their level, and the processes fitted to them."""
