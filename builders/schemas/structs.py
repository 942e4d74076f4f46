"""Structs shared by the rows of every benchmark. Rows refer to images and contain no pixels and no absolute path."""

from datasets import List, Value

# source: id in sources.toml; key: POSIX path relative to that source's official root; view: the source's name for it.
IMAGE_REF = {"source": Value("string"), "key": Value("string"), "view": Value("string")}
# Lists have no fixed length in the schema: pyarrow below 26 cannot read a null one of fixed length back from Parquet
# (apache/arrow#35692). `checks.find_length_violations` checks LENGTHS instead.
# xywh: pixels of the referenced image, top-left origin.
BOX = {"label": Value("string"), "xywh": List(Value("float32"))}
# size: [height, width]; counts: COCO compressed run-length encoding, column-major.
MASK = {"size": List(Value("int32")), "counts": Value("string")}
LENGTHS = {"xywh": 4, "size": 2}  # how many numbers these fields of a box and a mask have
