"""What pre-trained models answer, from memory or in an export."""
