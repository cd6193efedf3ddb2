"""The store of runs, and the journal from which an interrupted run is cleaned up."""
