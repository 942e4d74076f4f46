"""Free text about instruments and triplets, and the JSON protocol: tables of texts, spans, invariants."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.clauses import plain
from medfaith.evaluate_metrics.reading.surgery import Reply, read_instruments, read_reply, read_triplets
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS, TRIPLETS

G, B, H, S, C, IRR, BAG = INSTRUMENTS
CHOICES = "Grasper, Bipolar, Hook, Scissors, Clipper, Irrigator, Bag"  # of appendix C.2
LINES = "\n".join(f"{n}. {name}" for n, name in enumerate(CHOICES.split(", "), 1))

FOUND = [
    # plain
    ((G,), ["Grasper", "GRASPER", "Ｇｒａｓｐｅｒ"]),
    ((G, H), ["grasper, hook", "Grasper\nHook\n", "- Grasper\n- Hook", "**Grasper** and `hook`", "['grasper', 'hook']",
        "I see a grasper, a hook, and a grasper."]),
    ((H, G), ["Hook and Grasper"]),
    ((G, BAG), ["1. Grasper\n2. Bag", '["grasper", "specimen_bag"]']),
    ((G, C), ["The surgical tools are: Grasper, Clipper."]),
    # synonyms and plurals, the longest wins
    ((G,), ["Two graspers", "a pair of grasping forceps", "a grasping tool"]),
    ((B,), ["bipolar forceps", "a bipolar grasper", "bi-polar electrocautery", "Bipolar cautery forceps",
        "bipolar grasping forceps"]),
    ((H,), ["hook cautery", "an electrocautery hook", "L-hook", "the monopolar hook electrode",
        "hook electrocautery and electrohook"]),
    ((S,), ["a pair of scissors", "Scissor"]),
    ((C,), ["a clip applier", "clip-applier", "Endo-clip applicator", "a Hem-o-lok applier", "a clipping device"]),
    ((IRR,), ["a suction-irrigator", "suction/irrigation device", "the suction irrigation", "an irrigation cannula",
        "suction tube", "irrigator/aspirator"]),
    ((BAG,), ["Bag", "a specimen bag", "specimen_bag", "an Endo Catch bag", "a retrieval pouch",
        "specimen retrieval bag", "an endobag"]),
    # denial
    ((G,), ["There is a grasper but no hook.", "there is no hook visible, only a grasper", "No, there is a grasper.",
        "I see a grasper and no scissors, hook or clipper.", "The grasper is visible. The hook is not visible.",
        "The grasper is visible and the hook is not.", "The hook isn't visible, but the grasper is.",
        "a grasper rather than scissors", "It is not a hook, it is a grasper.",
        "No tools other than the grasper are visible.", "I have no doubt that it is a grasper.",
        "This image without contrast shows a grasper.", "Not visible:\n- hook\n- scissors\n\nVisible:\n- grasper",
        "Visible: grasper. Absent: hook.", "Grasper (yes), hook (no)", "Grasper - Yes\nHook - No",
        '{"grasper": true, "hook": false}', "I see a grasper, and hook is not visible.",
        "The grasper is not fully visible.", "Not a hook, but a grasper", "No hook, a grasper is visible",
        "Grasper present, hook not visible",
        "From the list, only the grasper is visible; the bipolar, hook, clipper, irrigator and bag are not."]),
    ((H,), ["No scissors. A hook is seen.", "I am not sure, it may be a hook.",
        "There is a hook. There is no other tool.", "There is no hook. On a second look, the hook is in the corner."]),
    ((B,), ["I don't see a hook. I see a bipolar."]),
    ((G, H), ["Not only a grasper but also a hook.", "Grasper: yes\nBipolar: no\nHook: present\nScissors: absent",
        "I see a Grasper and Hook. The other tools, such as Scissors, Clipper, and Bag, are not visible."]),
    ((C,), ["The hook is no longer visible, the clipper is."]),
    ((G, BAG), ["Tools: Grasper (visible), Hook (not visible), Bag (visible)"]),
    ((G, H, BAG), ["The image shows a grasper and hook, without scissors or a clipper, and there is a bag."]),
    ((BAG,), ["There isn't any hook, nor scissors, but there is a specimen retrieval bag."]),
    ((H,), ["That is a hook. No clipper, bag or bipolar that I could make out.",
        "The hook is at work; the grasper is out of view.", "The grasper has been withdrawn and the hook is active.",
        "Neither grasper nor bag can be seen; the hook is.", "The hook is being used, not the grasper.",
        "The grasper and bag do not appear in the frame. The hook does.",
        "The grasper is not among the visible tools, the hook is.", "No sign of a grasper; hook in use.",
        "The hook is seen. The clipper isn't in view anymore.",
        "I cannot rule out a grasper. The hook is clear to see.",
        "Visible instruments (1): hook.\nInstruments not seen (2): grasper, clipper."]),
    ((G, H), ["The grasper isn't moving while the hook is dissecting.",
        "Grasper: used to hold the gallbladder.\nHook: used to dissect."]),
    ((BAG,), ["The gallbladder has been removed and is in the specimen bag."]),
    # ticks and crosses, tables, a name with a colon and its state
    ((H,), ["✓ Hook\n✗ Grasper\n✗ Bag", "✅ Hook ❌ Grasper ❌ Bag",
        "Hook ✔ Grasper ✘ Bag ✘", "Grasper ❌, Hook ✅, Bag ❌",
        "- [x] Hook\n- [ ] Grasper",
        "| Tool | Seen |\n|---|---|\n| Grasper | No |\n| Hook | Yes |",
        "| Grasper | ✗ |\n| Hook | ✓ |",
        "Hook: at the centre\nGrasper: I can't see one\nBag: it does not appear\nClipper: No, it's not here\n"
        "Scissors: no scissors\nBipolar: not yet introduced", "Grasper: ✗, Hook: ✓"]),
    ((H,), ["Hook: present. Bipolar, scissors, clipper: absent.", "Hook - visible\nScissors - N/A",
        "1) grasper - no 2) bipolar - no 3) hook - yes", "Grasper (No), Bipolar (No), Hook (Yes), Scissors (No)",
        "A hook is visible. I don't see any other instruments, e.g., graspers or clippers.",
        "Ruled out: grasper, bag. Identified: hook."]),
    # headings
    ((H,), ["**Present**\n- Hook\n\n**Absent**\n- Grasper\n- Bag\n\n**Cannot be determined**\n- Clipper",
        "## Visible\nHook\n\n## Not visible\nGrasper\nBag", "Not visible:\n\ngrasper\nbag\n\nThe hook is visible.",
        "❌ Missing:\n- Grasper\n✅ Present:\n- Hook"]),
    # JSON
    ((H,), ['{"hook": 1, "grasper": 0, "bag": 0.0, "clipper": null}', '{"hook": "yes", "grasper": "no"}',
        '{"hook": {"visible": true}, "grasper": {"visible": false}}', '{"visible": ["hook"], "not_visible": ["bag"]}',
        '{\n  "hook": {\n    "visible": true\n  },\n  "grasper": {\n    "visible": false\n  }\n}',
        '[{"name": "hook", "visible": true}, {"name": "grasper", "visible": false}]',
        '```json\n{\n  "absent": [\n    "grasper",\n    "bag"\n  ],\n  "present": [\n    "hook"\n  ]\n}\n```']),
    ((G, H), ['{"grasper": 0.9, "hook": 0.7}']),
    # usual appearance and use
    ((G,), ["It could be mistaken for a bipolar, but it is a grasper."]),
    ((H,), ["The hook is dissecting. The scissors would be used later."]),
    ((H,), ["Surgeons typically use graspers and clippers. Here a hook is seen.",
        "Tools usually used for this:\n- grasper\n- clipper\n\nIn this frame I see a hook."]),
    ((G,), ["The grasper is commonly used for retraction and is visible on the left."]),
    # names in brackets in other languages
    ((H,), ["Se ve un gancho (hook). No se observa ninguna pinza (grasper) ni bolsa (bag).",
        "Ein Haken (hook) ist zu sehen. Keine Fasszange (grasper). Die Schere (scissors) ist nicht sichtbar.",
        "Un crochet (hook) est visible, sans pince (grasper). Les ciseaux (scissors) ne sont pas visibles.",
        "可以看到电钩（hook）。没有抓钳（grasper），剪刀（scissors）、标本袋（bag）均未见。"]),
    # questions, thinking
    ((H,), ["Hook? Yes. Grasper? No. Bag? Nope.", "Is the hook visible? Yes.\nIs the grasper visible? No."]),
    ((G,), ["Is it a hook? No. It is a grasper.", "Whether a hook is present is unclear. There is a grasper."]),
    ((S,), ["<think>A hook? The hook is bent.</think>Scissors"]),
    ((H,), ["<answer>hook</answer>"]),
    # the choice list, and more
    ((G,), [f"{CHOICES}. I see a grasper."]),
    ((H,), [f"Choose from: {CHOICES}\nHook"]),
    ((G, H), [f"What surgical tools do you see? Choose from: {CHOICES}\nASSISTANT: Grasper, Hook"]),
    ((C,), [f"{LINES}\nIn the image there is a clipper."]),
    ((G, B, H, S, C, IRR), ["Grasper, Bipolar, Hook, Scissors, Clipper, Irrigator"]),
    # no tool
    ((H,), ["A grasper-like shadow next to a hook", "Clips on the duct, and a hook"]),
    ((G,), ["The grasper is able to hook the tissue.", "An Ambu bag and a grasper"]),
]  # fmt: skip

NONE = [
    "None", "none.", "No tools", "No surgical tools are visible.", "There are no surgical instruments in this image.",
    "I do not see any surgical tools.", "I don't see any of the tools.", "I can't see any instruments here.",
    "The image does not contain any instruments.", "The tools are not visible.", "No visible instruments.",
    "There are no tools; the hook and grasper were removed.", "None of the listed tools are visible.",
    "Surgical tools: none", "[]", "There is no hook.",
    "There is no grasper, hook or scissors.", "There are no graspers, no hooks, and no scissors.",
    "Neither a grasper nor a hook is visible.", "The grasper and the hook are not visible.", "I cannot see a hook.",
    "I see no Grasper, Bipolar, Hook, Scissors, Clipper, Irrigator, or Bag.", "Grasper: no, Hook: no",
    f"{CHOICES}\nNone of these tools are visible.",
    "grasper and hook not visible", f"None of the tools listed ({CHOICES}) are visible in the image.",
]  # fmt: skip

DECLINED = [
    "I cannot determine which tools are visible.", "I am unable to identify any tools.",
    "I cannot identify any tools.", "I cannot see the image.", "It is unclear whether a hook is present.",
]  # fmt: skip
UNREAD = [
    "The image is blurred.", "A hook cannot be excluded.", "A scalpel.", "Forceps", "hooked",
    "The tissue is hooked up.", "clips",
    "A clip on the cystic duct", "It is bagged.", "graspable tissue", "an airbag",
    "Graspers are often used to hold tissue, and scissors can be used for cutting.", "Is there a hook?",
    "Common instruments for this:\n- hook\n- grasper", "In such operations a hook is used.",
    "If there were a grasper it would be on the left.",
    "<think>There is a grasper.", "yes", "No", f"{CHOICES}", f"{CHOICES}.", f"{CHOICES} {CHOICES}",
    f"Choose from: {CHOICES}", f"Tools: {CHOICES}, {CHOICES}", f'{CHOICES.replace(",", "")}',
    f"{CHOICES}. There is no hook.",
    "The grasper is left. A bipolar. One hook is seen. Scissors are open. A clipper. An irrigator. The bag is closed.",
]  # fmt: skip


def test_instruments():
    expected = {text: (names, "answered") for names, texts in FOUND for text in texts}
    expected |= dict.fromkeys(NONE, ((), "answered"))
    expected |= dict.fromkeys([*UNREAD, "", None, LINES, f"{CHOICES}\n{CHOICES}"], ((), "unread"))
    expected |= dict.fromkeys(DECLINED, ((), "declined"))
    readings = {text: read_instruments(text) for text in expected}
    assert {text: (reading.names, reading.outcome) for text, reading in readings.items()} == expected


def test_every_instrument_is_read_by_its_own_name():
    for name in INSTRUMENTS:
        for text in (name, name.replace("_", " "), name.upper(), f"a {name}."):
            assert read_instruments(text).names == (name,)


@pytest.mark.parametrize(
    ("reader", "text", "mentions", "denied"),
    [
        (read_instruments, "<think>hook</think> **Ein Großer “Grasper”** – İ, no hook", ["Grasper"], ["hook"]),
        (read_instruments, "the l-hook cautery’s tip, specimen_bag", ["l-hook cautery", "specimen_bag"], []),
        (
            read_triplets,
            "1. **Grasper** grasps *gut*.\n2. no hook cut gut",
            ["Grasper** grasps *gut"],
            ["hook cut gut"],
        ),
    ],
)
def test_spans_are_those_of_the_text_as_given(reader, text, mentions, denied):
    reading = reader(text)
    assert [text[m.start : m.end] for m in reading.mentions] == mentions
    assert [text[m.start : m.end] for m in reading.denied] == denied


TRIPLETS_FOUND = [
    ("grasper,retract,gallbladder", ["grasper retract gallbladder", "grasper, retract, gallbladder",
        "grasper,retract,gallbladder", "Grasper, Retract, Gallbladder.", "(grasper, retract, gallbladder)",
        "The grasper retracts the gallbladder.", "The grasper is retracting the gall bladder."]),
    ("hook,dissect,cystic_plate", ["<hook, dissect, cystic_plate>", '("hook", "dissect", "cystic plate")',
        "hook dissect cystic_plate", "hook dissect cystic plate", "hook dissect cystic-plate"]),
    ("hook,dissect,cystic_artery", ["hook | dissect | cystic artery"]),
    ("hook,dissect,cystic_duct", ["hook -> dissect -> cystic duct"]),
    ("hook,dissect,omentum", ["hook - dissect - omentum", "hook_dissect_omentum"]),
    ("grasper,grasp,gut", ["A grasper is used to grasp the gut"]),
    ("scissors,cut,cystic_duct", ["scissors cutting the cystic duct"]),
    ("clipper,clip,cystic_artery", ["clipper clipping cystic artery"]),
    ("bipolar,coagulate,liver", ["bipolar coagulates liver"]),
    ("bipolar,coagulate,blood_vessel", ["bipolar coagulation of the blood vessels"]),
    ("bipolar,coagulate,omentum", ["Bipolar forceps coagulate the omentum"]),
    ("irrigator,aspirate,fluid", ["irrigator aspirates fluid", "suction-irrigator aspirating fluid"]),
    ("irrigator,irrigate,abdominal_wall_cavity", ["irrigator irrigate abdominal_wall_cavity",
        "irrigator irrigates the abdominal wall/cavity"]),
    ("grasper,pack,gallbladder", ["grasper packs gallbladder"]),
    ("grasper,grasp,specimen_bag", ["grasper grasp specimen_bag"]),
    ("bipolar,dissect,adhesion", ["bipolar dissects adhesions"]),
    ("hook,dissect,peritoneum", ["hook cautery dissects the peritoneum"]),
    ("grasper,null_verb,null_target", ["grasper null_verb null_target", "grasper, null, null"]),
    ("grasper,retract,liver", ["Instrument: Grasper, Verb: Retract, Target: Liver",
        "Instrument: grasper\nVerb: retract\nTarget: liver",
        '[{"instrument": "grasper", "verb": "retract", "target": "liver"}]', "I see: **grasper retract liver**",
        "The hook is not dissecting. Grasper retract liver"]),
    # several
    ("grasper,retract,liver hook,dissect,gallbladder", ["grasper retract liver\nhook dissect gallbladder",
        "1. grasper retract liver\n2) hook dissect gallbladder",
        "grasper, retract, liver, hook, dissect, gallbladder"]),
    ("grasper,retract,liver", ["- grasper retract liver\n- grasper retract liver",
        "grasper retract liver; no hook dissect gallbladder",
        "grasper retract liver. Is the hook dissecting the gallbladder?"]),
]  # fmt: skip

TRIPLETS_NONE = [
    "None", "No action is visible.", "There are no surgical actions in the image.", "I do not see any instruments.",
    "The grasper is not retracting: no visible actions", "There is no grasper retracting the liver.", "[]",
]  # fmt: skip

TRIPLETS_DECLINED = [
    "I cannot determine the actions.",
    "It is unclear whether the hook dissects the liver.",
    "whether the hook dissects the liver is unclear",
]
TRIPLETS_UNREAD = [
    "The image is blurred.", "grasper", "grasper retract", "retract gallbladder", "grasper grasp tissue",
    "grasper can grasp, retract, dissect, or manipulate tissue", "the gallbladder is retracted by the grasper",
    "instrument verb target", "scalpel cut liver", "grasper holds liver", "grasper, grasp, retract, liver",
    "hooked dissect liver", "forceps grasp liver", "specimen_bag grasp gallbladder",
    "Is the grasper retracting the liver?",
]  # fmt: skip


def test_triplets():
    expected = {text: (tuple(names.split()), "answered") for names, texts in TRIPLETS_FOUND for text in texts}
    expected |= dict.fromkeys(TRIPLETS_NONE, ((), "answered"))
    expected |= dict.fromkeys([*TRIPLETS_UNREAD, "", None], ((), "unread"))
    expected |= dict.fromkeys(TRIPLETS_DECLINED, ((), "declined"))
    readings = {text: read_triplets(text) for text in expected}
    assert {text: (reading.names, reading.outcome) for text, reading in readings.items()} == expected
    assert not any(reading.illegal for reading in readings.values())


def test_illegal_combinations_are_kept_and_marked():
    reading = read_triplets("clipper cut liver\ngrasper retract liver\nClipper cuts the liver\nhook clip gut")
    assert reading.names == ("clipper,cut,liver", "grasper,retract,liver", "hook,clip,gut")
    assert reading.illegal == ("clipper,cut,liver", "hook,clip,gut")
    assert [mention.legal for mention in reading.mentions] == [False, True, False, False]


def test_every_triplet_is_read_by_its_own_text():
    for triplet in TRIPLETS:
        for text in (triplet, triplet.replace(",", " "), triplet.replace(",", ", ").replace("_", " ")):
            assert read_triplets(text).names == (triplet,)
    assert read_triplets("\n".join(TRIPLETS)).names == TRIPLETS


PARTS = "grasper hook bag no not is visible and but , . ? : - a the only whether if retract gallbladder null"
WORDS = st.sampled_from([*re.split(" ", PARTS), "\n", "İ", "ß", "’", "“", "{", "]", "ﬃ", "<think>", "</think>"])


@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)))
@example("İ no hook")
def test_reading_never_fails_and_spans_lie_in_the_text(text):
    assert len(plain(text)) == len(text)
    for reading in (read_instruments(text), read_triplets(text)):
        assert reading.outcome == "answered" or not reading.mentions
        for mention in (*reading.mentions, *reading.denied):
            assert 0 <= mention.start < mention.end <= len(text)
        starts = [mention.start for mention in reading.mentions]
        assert starts == sorted(set(starts))


@given(
    st.lists(st.sampled_from(INSTRUMENTS), min_size=1, max_size=6, unique=True), st.sampled_from([", ", "\n", " and "])
)
def test_lists_of_names_are_read_in_their_order(names, separator):
    assert read_instruments(separator.join(names)).names == tuple(names)
    denied = read_instruments("There is no " + ", ".join(names))
    assert (denied.outcome, [mention.name for mention in denied.denied]) == ("answered", names)


REPLIES = {
    "A hook.": {"text": "A hook."},
    "": {"text": ""},
    '  {"predicted": []}': {"predicted": ()},
    '{"text": "A hook.", "heatmaps": "a/1"}': {"text": "A hook.", "heatmaps": "a/1"},
    '{"text": "", "heatmaps": null}': {"text": ""},
    '{"scores": [0.25]}': {"scores": (0.25,)},
    None: {"text": ""},
    '{"heatmaps": "a/1"}': {"heatmaps": "a/1", "unparsed": True},  # no answer, and its key is kept
    # a model's own JSON is text
    **{
        text: {"text": text}
        for text in ('{"tools": ["hook"]}', '{"predicted": ["hook"], "why": "bent"}', '["hook"]', "{}")
    },
}

BROKEN = [
    "{", "{hook}", '{"predicted": ["hook"', '{"predicted": ["hook"]} and more', "{'predicted': ['hook']}",
    '{"predicted": "hook"}', '{"predicted": [1]}', '{"predicted": {"hook": 1}}', '{"scores": [NaN]}',
    '{"scores": [Infinity]}', '{"tools": NaN}', '{"scores": [1e999]}', '{"scores": ["0.5"]}', '{"scores": [true]}',
    '{"predicted": ["hook"], "tied": 1}',
    '{"scores": 0.5}', '{"scores": [1' + "0" * 400 + "]}", '{"text": ["hook"]}', '{"heatmaps": 7, "text": "hook"}',
    '{"a":' * 100_000,
]  # fmt: skip


def test_replies():
    assert {text: read_reply(text) for text in REPLIES} == {text: Reply(**fields) for text, fields in REPLIES.items()}
    assert [text[:80] for text in BROKEN if read_reply(text) != Reply(unparsed=True)] == []


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.text(), max_size=3), st.lists(finite, max_size=5), st.text())
def test_the_protocol_comes_back_as_written(predicted, scores, key):
    reply = read_reply(json.dumps({"heatmaps": key, "predicted": predicted, "scores": scores}))
    assert reply == Reply(predicted=tuple(predicted), scores=tuple(scores), heatmaps=key)
