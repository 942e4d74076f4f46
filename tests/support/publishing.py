"""Names of builds to publish, and the command that publishes a metric."""

OPENI, CHEXPERT = "cxr-contrabench-openi", "cxr-contrabench-chexpert"
METRIC = ("publish-metrics", "--org", "clinic", "--metric", "tpt")
