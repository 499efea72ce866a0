"""A fake OpenID provider on loopback, which signs people in as Hugging Face does: standard library, authlib's signer.

It knows one application. Its page asks who one is, and gives each person the token that the fake Hub knows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENT, SECRET = "client-of-the-space", "secret-of-the-space"
SCOPES = "openid profile read-repos gated-repos"


@dataclass
class FakeProvider:
    """A provider in this process; ``people`` maps names to tokens, which are valid for ``seconds``."""

    people: Mapping[str, str]
    seconds: int = 3600
    codes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Codes that were handed out and not yet exchanged: who it is for, and the nonce of the request."""

    def __enter__(self) -> Self:
        """Listen on a free port."""
        from joserfc.jwk import RSAKey

        self._key = RSAKey.generate_key(2048, {"kid": "1"})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"provider": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What the Hub sets on a Space with ``hf_oauth: true``."""
        return {
            "SYSTEM": "spaces",
            "SPACE_ID": "lab/space",
            "OAUTH_CLIENT_ID": CLIENT,
            "OAUTH_CLIENT_SECRET": SECRET,
            "OAUTH_SCOPES": SCOPES,
            "OPENID_PROVIDER_URL": self.url,
        }

    def description(self) -> dict[str, Any]:
        """Return where what is."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/oauth/authorize",
            "token_endpoint": f"{self.url}/oauth/token",
            "userinfo_endpoint": f"{self.url}/oauth/userinfo",
            "jwks_uri": f"{self.url}/oauth/jwks",
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        """Return the public key."""
        return {"keys": [self._key.as_dict(private=False)]}

    def agreed(self, name: str, query: Mapping[str, str]) -> str:
        """Return where a person is sent back to who has said who it is; nobody stands for declining."""
        if name not in self.people:
            answer = {"error": "access_denied", "error_description": "The user denied it"}
        else:
            code = token_urlsafe(8)
            self.codes[code] = (name, query.get("nonce", ""))
            answer = {"code": code}
        back = query["redirect_uri"]
        return f"{back}{'&' if '?' in back else '?'}{urlencode({**answer, 'state': query['state']})}"

    def exchanged(self, code: str) -> dict[str, Any] | None:
        """Return what a code is good for, once."""
        from joserfc import jwt

        name, nonce = self.codes.pop(code, ("", ""))
        if not name:
            return None
        now = int(time.time())
        profile = {"preferred_username": name, "name": name.title(), "profile": f"{self.url}/{name}"}
        claims = {"iss": self.url, "aud": CLIENT, "sub": name, "iat": now, "exp": now + 3600, "nonce": nonce, **profile}
        return {
            "access_token": self.people[name],
            "token_type": "bearer",
            "expires_in": self.seconds,
            "scope": SCOPES,
            "id_token": jwt.encode({"alg": "RS256", "kid": "1"}, {**claims, "picture": ""}, self._key),
        }


class _Handler(BaseHTTPRequestHandler):
    provider: FakeProvider
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Describe the provider, ask who one is, or send a person back to the application."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/.well-known/openid-configuration":
            self._say(json.dumps(self.provider.description()))
        elif url.path == "/oauth/jwks":
            self._say(json.dumps(self.provider.keys()))
        elif url.path == "/oauth/authorize" and query.get("client_id") == CLIENT and "as" in query:
            self._say("", 302, location=self.provider.agreed(query["as"], query))
        elif url.path == "/oauth/authorize" and query.get("client_id") == CLIENT:
            names = (
                f'<p><a href="{self.path}&amp;as={name}">{name}</a></p>' for name in (*self.provider.people, "nobody")
            )
            self._say(f"<!DOCTYPE html><title>Who are you?</title>{''.join(names)}", kind="text/html")
        else:
            self._say("{}", 404)

    def do_POST(self) -> None:
        """Exchange a code for a token."""
        sent = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        found = self.provider.exchanged(sent.get("code", [""])[0])
        self._say(json.dumps(found or {"error": "invalid_grant"}), 200 if found else 400)

    def _say(self, text: str, status: int = 200, *, kind: str = "application/json", location: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
