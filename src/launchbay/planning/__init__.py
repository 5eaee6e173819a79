"""A request becomes an accepted job: frozen plan, places, accepting statement.

Requests and the engine's stager must accept work in the same way. They share this package because they can't import
each other.
"""
