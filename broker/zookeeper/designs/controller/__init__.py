"""The design with a controller: one broker elects all leaders, writes that into the tree, and tells the others."""
