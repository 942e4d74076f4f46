"""The Cholec80-Boxes reader: frames and boxes of a csv, and an error message for every fault."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders import cholec80_boxes, images
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault
from tests.support.tiers import choose_size

HEADER = "Surgery_num;Dir;FrameName;NumBBox_inFrame;ToolName;BBox_X;BBox_Y;BBox_Width;BBox_Height"


def format_line(
    video: object = 42, frame=25, n: object = 1, tool="Grasper", box=(10, 20, 30, 40), folder=None, name=None
):
    folder = rf"Images\Video_{video}" if folder is None else folder
    name = f"Video_{video}_{frame:05d}.png" if name is None else name
    return ";".join(map(str, (video, folder, name, n, tool, *box)))


def write(root, *lines, header=HEADER):
    (root / "ROI_Labels.csv").write_bytes("\n".join([header, *lines, ""]).encode())
    return root


def test_frames_come_in_order_with_their_boxes(tmp_path):
    write(
        tmp_path,
        format_line(43, 0, 1, "Hook", (1, 2, 3, 4)),
        format_line(43, 25, 1, "Hook", (1, 2, 3, 4)),  # another frame or another tool may have the same box
        format_line(43, 0, 1, "Bipolar", (1, 2, 3, 4)),
        format_line(42, 50, 2, "SpecimenBag", (5.5, 0, 1, 1)),
        format_line(42, 100000, 1, "Irrigator"),
        format_line(42, 50, 1, "Grasper", (0, 0, 7, 8)),
        format_line(42, 50, 3, "Grasper", (9, 9, 7, 8)),
    )
    frames = cholec80_boxes.read_frames(tmp_path)
    assert [(f.video, f.frame) for f in frames] == [(42, 50), (42, 100000), (43, 0), (43, 25)]
    assert frames[0].boxes == (("grasper", (0, 0, 7, 8)), ("specimen_bag", (5.5, 0, 1, 1)), ("grasper", (9, 9, 7, 8)))
    assert frames[0].key == "Images/Video_42/Video_42_00050.png"
    assert frames[1].key == "Images/Video_42/Video_42_100000.png"
    assert frames[2].boxes == (("hook", (1, 2, 3, 4)), ("bipolar", (1, 2, 3, 4)))
    assert frames[3].boxes == (("hook", (1, 2, 3, 4)),)


def test_columns_are_found_by_name_and_folders_are_written_either_way(tmp_path):
    turned = ";".join(["comment", *reversed(HEADER.split(";"))])
    write(tmp_path, ";".join(["x", *reversed(format_line().split(";"))]), header=turned)
    assert cholec80_boxes.read_frames(tmp_path)[0].boxes == (("grasper", (10, 20, 30, 40)),)
    for folder in ("", r"Images\Video_42", "Images/Video_42/", r"D:\x\Images\video_42", "frames"):
        frames = cholec80_boxes.read_frames(write(tmp_path, format_line(folder=folder)))
        assert frames[0].key == "Images/Video_42/Video_42_00025.png"


def test_spellings_of_a_tool():
    spellings = {
        **{spelt: name for name in cholec80_boxes.INSTRUMENTS for spelt in (name, name.upper())},
        **dict.fromkeys(("SpecimenBag", "Specimen bag", "specimen-bag", "Bag"), "specimen_bag"),
        **{" Hook ": "hook", "Scissor": "scissors", "Trocar": None, "": None},
    }
    assert {name: cholec80_boxes.find_instrument(name) for name in spellings} == spellings


@pytest.mark.parametrize(
    ("bad", "column", "message"),
    [
        (format_line(tool="Trocar"), "ToolName", "one of grasper, bipolar"),
        (format_line(tool=""), "ToolName", "is blank"),
        (format_line(box=(1, 2, 0, 4)), "BBox_Width", "above 0"),
        (format_line(box=(1, 2, 3, -4)), "BBox_Height", "above 0"),
        (format_line(box=(1, 2, 3, "")), "BBox_Height", "is blank"),
        (format_line(box=("1,5", "", 3, 4)), "BBox_X", "'1,5'"),
        (format_line(name="Video_43_00025.png"), "FrameName", "a frame of Surgery_num 42"),
        (format_line(name="Video_42.png"), "FrameName", "Video_42_00000.png"),
        (format_line(name="../Video_42_00025.png"), "FrameName", "a frame of Surgery_num 42"),
        (format_line(name=""), "FrameName", "is blank"),
        (format_line(folder=r"Images\Video_41"), "Dir", "the folder of Surgery_num 42"),
        (format_line(video="42.5"), "Surgery_num", "a whole number"),
        (format_line(video=""), "Surgery_num", "is blank"),
        (format_line(video=0), "Surgery_num", "1 to 80"),
        (format_line(video=81), "Surgery_num", "1 to 80"),
        (format_line(n="one"), "NumBBox_inFrame", "a whole number"),
        (format_line(n=""), "NumBBox_inFrame", "is blank"),
        (format_line(frame=0), None, "repeats row 1"),
        (format_line(frame=0, n=2), None, "repeats row 1"),  # the same box with a new number
    ],
)
def test_a_fault_is_named_by_file_row_and_column(tmp_path, bad, column, message):
    path = write(tmp_path, format_line(frame=0), bad) / "ROI_Labels.csv"
    assert message in get_fault(cholec80_boxes.read_frames, tmp_path, where=path, row=2, column=column)


def test_the_csv_is_found_below_the_root_or_is_the_root(tmp_path):
    path = write(tmp_path, format_line()) / "ROI_Labels.csv"
    assert cholec80_boxes.find_label_files(tmp_path) == cholec80_boxes.find_label_files(path) == {"boxes": path}
    assert cholec80_boxes.read_frames(path) == cholec80_boxes.read_frames(tmp_path)
    with pytest.raises(InputError, match=r"holds no ROI_Labels\.csv"):
        cholec80_boxes.find_label_files(tmp_path / "Images")


BOXES = st.tuples(
    st.integers(41, 45),
    st.integers(0, 10**6),
    st.sampled_from(["Grasper", "Bipolar", "Hook", "Bag"]),
    st.tuples(*[st.integers(0, 800)] * 2, *[st.integers(1, 800)] * 2),
)


@settings(max_examples=choose_size(8, 30))
@given(boxes=st.lists(BOXES, min_size=1, max_size=20, unique=True), seed=st.randoms())
def test_no_box_is_lost_or_invented_in_any_order_of_rows(tmp_path_factory, boxes, seed):
    root = tmp_path_factory.mktemp("boxes")
    lines = [format_line(video, frame, n, tool, box) for n, (video, frame, tool, box) in enumerate(boxes)]
    frames = cholec80_boxes.read_frames(write(root, *lines))
    boxes_read = {(f.video, f.frame, tool, box) for f in frames for tool, box in f.boxes}
    assert boxes_read == {(v, k, cholec80_boxes.find_instrument(tool), box) for v, k, tool, box in boxes}
    assert sum(len(f.boxes) for f in frames) == len(boxes)
    seed.shuffle(lines)
    assert cholec80_boxes.read_frames(write(root, *lines)) == frames


# --- the frames' images -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Images/Video_42/Video_42_00025.png", "Images/Video_42/Video_42_00025.jpg",
                                  "Video_42/Video_42_00025.png"])  # fmt: skip
def test_an_image_is_found_where_copies_keep_it(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True)
    Image.new("RGB", (4, 3)).save(tmp_path / name)
    ref = {"source": "cholec80_boxes", "key": cholec80_boxes.key(42, 25), "view": ""}
    assert images.locate(ref, {"cholec80_boxes": tmp_path}) == (tmp_path / name).resolve()
