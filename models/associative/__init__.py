"""Models of associations that a measurement trains or writes itself."""
