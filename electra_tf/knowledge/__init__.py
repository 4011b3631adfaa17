"""What a trained model knows: studies that measure it without training it."""
