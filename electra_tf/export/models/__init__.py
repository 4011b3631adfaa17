"""Models of exports: their computation, speed and stored weights."""
