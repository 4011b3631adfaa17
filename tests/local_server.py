"""Web servers of a few lines, for tests of those who ask them."""

import contextlib
import logging
import threading

from werkzeug import serving
from werkzeug import wrappers


@contextlib.contextmanager
def serve(answer):
    """Gives `host:port`; `answer` makes a response of each request."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = wrappers.Request.application(answer)
    server = serving.make_server("127.0.0.1", 0, application, threaded=True)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.port}"
    server.shutdown()
    server.server_close()
