"""The cluster's metadata: the records of its log, and the image that they add up to."""
