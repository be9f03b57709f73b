"""The pages of the app: controls and layout. What they show is made in ``leaderboards.views``."""
