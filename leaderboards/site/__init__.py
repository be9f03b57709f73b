"""The board as a folder of files that need no server: pages, charts, badges, tables to cite, data.

Everything that is shown comes from ``leaderboards.views``, as in the app.
"""
