"""Loops that judge methods: samplers raced on measured tables, models validated."""
