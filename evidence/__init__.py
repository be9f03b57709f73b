import ground as ground  # says which Python is needed
