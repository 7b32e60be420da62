"""Serve the two obsolete operations from your storage, with Flask or as plain WSGI.

Begin with ``service``, which turns a session and a storage into a response and knows no
framework. ``blueprint`` and ``application`` are the two entry points to it, ``storage``
is the protocol that an application implements, and ``records`` writes the array.
"""
