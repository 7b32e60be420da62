"""The settings of the Django project that the README wraps."""

SECRET_KEY = "not a secret"  # noqa: S105
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "mysite.urls"
USE_TZ = True
