"""The models inside of exports: computation, speed and stored weights."""
