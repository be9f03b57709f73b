"""How a store is laid out. Nothing is imported, so that a node of a cluster may read this alone."""

LAYOUT = 1  # of the folders of a store; a store of another number is laid out otherwise
LAYOUT_FILE = "layout.json"  # a store from before there was a number has none, and is of layout 1
