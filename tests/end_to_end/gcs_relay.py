"""`gcs_relay.py EMULATOR_PORT CERTIFICATE`: a proxy to an emulated gs://."""

import contextlib
import socket
import socketserver
import ssl
import sys
import threading


class _Relay(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1 << 16)
        self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        client = CONTEXT.wrap_socket(self.request, server_side=True)
        store = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        threading.Thread(target=_pass_on, args=(store, client)).start()
        _pass_on(client, store)


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 20):
            # Servers in Go refuse this; they name places without encryption.
            data = data.replace(b"Transfer-Encoding: identity\r\n", b"")
            data = data.replace(b"Location: http:", b"Location: https:")
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CONTEXT.load_cert_chain(sys.argv[2])
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Relay) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
