"""Words of yes/no questions that do not name a target. Data (see question_target.py)."""

from __future__ import annotations

from .words import build_word_set

GENERIC_WORDS = build_word_set(
    """
    abnormal abnormalities abnormality anything disease diseases finding findings lesion lesions pathologic
    pathological pathologies pathology something unusual wrong
    """
)
SKIPPED_WORDS = build_word_set(  # words of a question that do not describe its target
    """
    a actually affect affected also am an and answer any apparent appear appears are area areas as at based be
    been being by can change changes chest clear consistent contain contained contains could current currently da
    dans de definite del demonstrate demonstrated demonstrates depict depicts des detect detected did do does done
    du el em en est está evidence evident exam exhibit exhibits feature features field fields film find following
    for form found frame from frontal given had has have having hay he hemithorax her here him há i identified
    identify if il image images in indicate indicated indicates indication indications inferior is it its kind l
    la las le les likely lobe lobes lobo located look looking looks los lung lungs may me might must no not note noted
    observa observe observed obvious of on or part parts photo picture pictures please presence present provided
    que radiograph radiographs ray region regions reveal reveals represent represents s scan se see seen she
    should show showing shown shows side sided sign signs situated some study suffer suffering suffers suggest suggested
    suggestive suggests superior suspicious t taken that the their them there these they this those to type um uma
    un una une us used ve view visible visual voit was we were what where whether which will with would x xray y
    yes you your zone zones à
    """
)
