"""The artifact: a trained model in the form that the runtime reads."""
