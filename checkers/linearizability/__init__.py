"""Decides linearizability: finds an order of all operations that a sequential object explains, or shows there is none.

A small pure library: plain values in, plain values out, no I/O, no clock unless a time limit is asked for.

| module | what is in it |
|---|---|
| `operations` | the values: operation, budget, verdict, evidence |
| `models` | the sequential objects, `MODELS` |
| `check` | `check_history(operations, model, budget, initial)`: all keys of one history |
| `reads_from` | which operation wrote what another read |
| `layout` | what is open between one completion and the next, as the search takes it |
| `search` | depth-first search of one key, for every model |
| `special` | the models that O(n log n) decides |
| `evidence` | why there is no order; a verdict as JSON, for tasks and for the picture |
| `tasks` | any number of histories inside Spark tasks |
"""
