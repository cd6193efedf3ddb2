"""Networks whose links can be cut and shaped: namespaces with a switch between them, and proxies."""
