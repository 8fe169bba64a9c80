"""The tuning loop: search, confirm, conclude."""
