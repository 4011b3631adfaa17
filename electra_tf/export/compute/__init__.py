"""How an exported graph computes fast and stores its weights."""
