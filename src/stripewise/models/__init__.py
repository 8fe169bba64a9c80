"""What measurements teach: tables, their true values, and models that predict performance."""
