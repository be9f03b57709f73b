"""Where documents come from: files, the Hugging Face hub, generators."""
