"""Fine-tuned models as SavedModels; read `module` and `trial` first."""
