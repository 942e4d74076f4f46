"""The disease labels of HEAL-MedVQA and their names in texts.

They are the 22 local findings of VinDr-CXR (section 5), and for rows of NIH ChestX-ray14 its eight diseases with boxes.
"""

# Regular expressions over lower-case words with one space between them; hyphens and slashes become spaces.
_IS = r"(?:is|are|isn't|aren't|appears?|looks?|seems?)(?: not)?(?: \w+ly)?"
SYNONYMS: dict[str, tuple[str, ...]] = {
    "Aortic enlargement": (
        r"aortic (?:knob |arch |root )?(?:enlargement|dilat(?:at)?ion|ectasia|aneurysms?|widening)",
        r"(?:enlarged|dilated|widened|ectatic) (?:thoracic |ascending |descending )?aort(?:a|ic (?:knob|arch|root))",
        r"(?:enlargement|dilat(?:at)?ion|widening|aneurysms?|ectasia) of the (?:\w+ )?aort(?:a|ic (?:knob|arch|root))",
        rf"aorta {_IS} (?:enlarged|dilated|widened|ectatic|aneurysmal)",
    ),
    "Atelectasis": (
        r"atelect[ae]s[ie]s",
        r"atelectatic(?: changes?| bands?)?",
        r"(?:lobar|lobe|subsegmental|[lr][lmu]l) collapse",
        r"collapse of the (?:\w+ ){0,3}?(?:lobe|[lr][lmu]l)",
    ),
    "Calcification": (r"(?:micro)?calcifications?", r"calcified", r"calcific"),
    "Cardiomegaly": (
        r"cardiomegaly",
        r"enlarged (?:heart|cardiac (?:silhouette|shadow|contour))",
        r"(?:heart|cardiac) (?:size )?enlargement",
        r"enlargement of the (?:heart|cardiac (?:silhouette|shadow))",
        rf"(?:heart|cardiac)(?: silhouette| shadow| contour| size)? {_IS} (?:enlarged|increased)",
        r"increased (?:heart|cardiac) size",
        r"(?:big|large) heart",
    ),
    "Clavicle fracture": (
        r"(?:clavicle|clavicular|collarbone|collar bone) fractures?",
        r"(?:fractured|broken) (?:left |right )?(?:clavicles?|collarbone|collar bone)",
        r"fractures? of (?:the |a )?(?:\w+ )?(?:clavicles?|collarbone|collar bone)",
    ),
    "Consolidation": (r"consolidations?", r"consolidative(?: opacit(?:y|ies)| changes?)?"),
    "Edema": (r"o?edema", r"o?edematous(?: changes?)?"),
    "Emphysema": (r"emphysema", r"emphysematous(?: changes?)?"),
    "Enlarged PA": (
        r"(?:enlarged|dilated|prominent) (?:main )?(?:pa|pulmonary arter(?:y|ies))",
        r"(?:pa|pulmonary arter(?:y|ial)) (?:enlargement|dilat(?:at)?ion)",
        r"(?:enlargement|dilat(?:at)?ion) of the (?:main )?(?:pa|pulmonary arter(?:y|ies))",
        rf"pulmonary arter(?:y|ies) {_IS} (?:enlarged|dilated|prominent)",
    ),
    "ILD": (r"ild", r"interstitial (?:lung )?diseases?", r"diffuse parenchymal lung diseases?", r"dpld"),
    "Infiltration": (r"infiltrations?", r"infiltrates?"),
    "Lung Opacity": (r"(?:lung |pulmonary )?opacit(?:y|ies)", r"opacifications?", r"ggos?"),
    "Lung cavity": (r"(?:lung |pulmonary )?cavit(?:y|ies)", r"cavitations?", r"cavit(?:ary|ating)(?: lesions?)?"),
    "Lung cyst": (r"(?:lung |pulmonary )?cysts?", r"cystic (?:lesions?|changes?)"),
    "Mediastinal shift": (
        r"mediastinal (?:shift(?:ing)?|displacement|deviation)",
        r"(?:shift(?:ing)?|displacement|deviation) of the mediastinum",
        r"(?:shifted|displaced|deviated) mediastinum",
        rf"mediastinum {_IS} (?:shifted|displaced|deviated|pushed)",
    ),
    "Nodule/Mass": (r"nodules? (?:or |and )?mass(?:es)?", r"(?:micro)?nodules?", r"mass(?:es)?"),
    "Pleural effusion": (
        r"pleural (?:effusions?|fluid)",
        r"effusions?",
        r"hydrothorax",
        r"fluid in the (?:(?:left|right) )?pleural space",
        r"fluid around the (?:\w+ )?lungs?",
    ),
    "Pleural thickening": (
        r"pleural thickenings?",
        r"thickened pleura",
        r"thickening of the (?:\w+ )?pleura",
        rf"pleura {_IS} thickened",
    ),
    "Pneumothorax": (r"pneumothora(?:x|ces|xes)", r"ptx"),
    "Pulmonary fibrosis": (
        r"(?:pulmonary |lung )?fibros[ie]s",
        r"fibrotic(?: changes?| scarring| lung disease)?",
        r"ipf",
    ),
    "Rib fracture": (
        r"ribs? fractures?",
        r"(?:fractured|broken) (?:\w+ ){0,3}ribs?",
        rf"ribs? {_IS} (?:to be )?(?:fractured|broken)",
        r"fractures? (?:of|in|involving|through) (?:the |a )?(?:\w+ ){0,4}ribs?",
    ),
    "Other lesion": (r"other (?:\w+ )?lesions?",),
}

CLASSES: tuple[str, ...] = tuple(SYNONYMS)

SYNONYMS |= {
    "Mass": (r"mass(?:es)?",),
    "Nodule": (r"(?:micro)?nodules?",),
    "Pneumonia": (r"(?:broncho|pleuro)?pneumonias?", r"pneumonic(?: infiltrat(?:es?|ions?)| consolidations?)?"),
}
NIH_CLASSES = (
    "Atelectasis", "Cardiomegaly", "Infiltration", "Mass", "Nodule", "Pleural effusion", "Pneumonia", "Pneumothorax",
)  # fmt: skip


def list_classes(row_id: str) -> tuple[str, ...]:
    """List the labels that the answer to a row's open question may name.

    Args:
        row_id: The id of the row, which begins with the name of its config.

    Returns:
        The labels.

    >>> "Nodule" in list_classes("nih/test/00000001_000.png/normal/heart"), "Nodule" in list_classes("vindr/test/0/...")
    (True, False)
    """
    return NIH_CLASSES if row_id.startswith("nih/") else CLASSES


# Names of other things that contain one of the names above.
OTHERS: tuple[str, ...] = (
    r"(?:subcutaneous|surgical|soft tissue|mediastinal) emphysema",
    r"pericardial effusions?",
    r"joint effusions?",
    r"cystic fibrosis",
    r"(?:thoracic|pleural|chest|abdominal|oral|nasal|body) cavit(?:y|ies)",
    r"mass effect",
    r"body mass",
    r"(?:bone|muscle) mass",
    r"thyroid nodules?",
    r"(?:cerebral|brain|peripheral|soft tissue|subcutaneous) o?edema",
)
