"""What every sentence says that the app, reports, command line and MCP print about tables, and what it was held against.

A sentence either states a number of the table before the reader (``Measured``: then it is a recomputation that would refute it, and
no chance level is needed), or says that something is more than chance (``Tested``: then its test is named, and its rate of
false alarms is measured), or repeats what a file or a formula states (``Stated``).
"""
