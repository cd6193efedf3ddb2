"""Handlers of controller requests, one module each."""
