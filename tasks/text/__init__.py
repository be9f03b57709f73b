"""Text for the language-modelling tasks: tokenizers, corpora and prepared token streams."""
