"""The schema's history. To change the schema:

1. write `NNNN_what_changes.sql` here, with the next number; it runs as one transaction, multiple statements are fine;
2. add `versions/vNNNN_what_changes.py` beside the others, with its `revision`, `down_revision` and the file's name.

A file that was released is never edited. There is no way down: a backup is.
"""
