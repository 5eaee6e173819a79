"""How work is accepted: the compiled manifest, the frozen plan, and the one transaction that promises the job.

The request side and the engine's stager both accept work, and must do so in the same way; they share this layer because
they may not import each other.
"""
