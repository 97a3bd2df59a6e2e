"""A server that speaks Unity Catalog's open REST API over a catalog.

Each endpoint is a plain function from a `Call` to JSON; `application` makes an ASGI application of them. `run` is the
entry: it needs Starlette and uvicorn.
"""
