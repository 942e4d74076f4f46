"""Dice and IoU of segmentation masks in COCO's run-length encoding."""
