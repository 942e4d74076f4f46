"""Row schemas, one small file a benchmark family (Hugging Face `Features`)."""
