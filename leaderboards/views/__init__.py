"""What every page shows, as numbers, sentences and charts: functions of the board alone.

The app draws them, and whoever writes files from them shows the same. Nothing here knows Streamlit.
"""
