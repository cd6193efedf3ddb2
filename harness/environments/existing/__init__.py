"""The environment `existing`: a cluster that Harrow did not start, hurt and healed by its user's hooks alone."""
