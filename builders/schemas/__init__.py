"""Row schemas, one file per benchmark family (Hugging Face `Features`)."""
