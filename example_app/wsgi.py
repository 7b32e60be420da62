"""The WSGI application that servers load: ``example_app.wsgi:application``."""

from flask_notifications import DeprecationMiddleware
from flask_notifications.usage import UsageRecorder

from . import create_app

app = create_app()

# Counts the callers in the application's own database, in which ``prepare`` has created
# the tables.
recorder = UsageRecorder(app.extensions["engine"], create_tables=False)

# Outermost, so that nothing inside, such as monitoring, ever sees a session ID in a
# URL.
application = DeprecationMiddleware(app, app.extensions["plan"], observers=[recorder])
