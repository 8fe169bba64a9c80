"""General knowledge for searches: small models of other systems, and the configurations that helped on most of them.

What ships is for programs on several nodes. ``docs/explanation/general-knowledge.md`` says what it rests on and what it
was measured to be worth.
"""
