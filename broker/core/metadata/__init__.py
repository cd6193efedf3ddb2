"""The cluster's metadata: the records of its log, and the image built from them."""
