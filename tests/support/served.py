"""The features of the servers that tests start: all of them, and none in `make test-kernel`."""

import os

from launchbay.app.features import FEATURES, endpoints, pages
from launchbay.feature import Features

IS_KERNEL = os.environ.get("LAUNCHBAY_TEST_FEATURES") == "none"
SERVED = Features(()) if IS_KERNEL else FEATURES
ENDPOINTS = endpoints(SERVED)
PAGES = pages(SERVED)
