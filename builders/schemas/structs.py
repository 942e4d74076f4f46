"""Structs that rows of every benchmark share. Rows reference images; no pixels and no absolute path enter a row."""

from datasets import List, Value

# source: id in sources.toml; key: POSIX path relative to that source's official root; view: as the source names it.
IMAGE_REF = {"source": Value("string"), "key": Value("string"), "view": Value("string")}
# xywh: pixels of the referenced image, top-left origin.
BOX = {"label": Value("string"), "xywh": List(Value("float32"), 4)}
# size: [height, width]; counts: COCO compressed run-length encoding, column-major.
MASK = {"size": List(Value("int32"), 2), "counts": Value("string")}
