"""Many runs from one specification: its cells, the folder they are kept in, and running them token by token.

Nothing here needs torch before a cell is run.
"""
