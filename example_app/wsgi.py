"""The WSGI name that servers load: ``example_app.wsgi:application``."""

from flask_notifications import DeprecationMiddleware, load_policy

from . import create_app

app = create_app()

# Outermost, so that nothing inside, monitoring least of all, ever sees a session ID in a URL.
application = DeprecationMiddleware(app, load_policy(app.config.get_namespace("NOTIFICATIONS_")))
