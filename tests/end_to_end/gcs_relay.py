"""Stands between TensorFlow's client of gs:// and an emulator of the store.

`gcs_relay.py EMULATOR_PORT CERTIFICATE` prints the port at which it is a proxy
for HTTPS. Whatever host is asked for, it answers with the certificate, which
holds the key too, and hands the requests to the emulator.
"""

import contextlib
import socket
import socketserver
import ssl
import sys
import threading


class Relay(socketserver.BaseRequestHandler):
    """One connection, in a thread of its own."""

    def handle(self) -> None:
        """Answers CONNECT, then passes on what comes until either side ends."""
        self.request.recv(1 << 16)
        self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        client = CONTEXT.wrap_socket(self.request, server_side=True)
        store = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        both = {"target": _pass_on, "args": (store, client), "daemon": True}
        threading.Thread(**both).start()
        _pass_on(client, store)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 20):
            # Of an empty upload; servers written in Go refuse it.
            data = data.replace(b"Transfer-Encoding: identity\r\n", b"")
            # Where to upload to: the emulator knows nothing of encryption.
            data = data.replace(b"Location: http:", b"Location: https:")
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CONTEXT.load_cert_chain(sys.argv[2])
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
