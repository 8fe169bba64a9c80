"""Test suites of others, plain and under Stripewise."""
