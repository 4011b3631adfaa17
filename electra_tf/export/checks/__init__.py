"""Whether an export answers as the model that it was made from."""
