"""The button to sign in with Hugging Face, and to sign out."""

from __future__ import annotations

import gradio as gr

from .events import QUIET, NoStub
from .page_script import on_event

SIGN_IN = "Sign in with Hugging Face"
SIGN_OUT = "Sign out ({})"


class SignInButton(gr.LoginButton, metaclass=NoStub):
    """Gradio's button, which comes back to the view it was clicked in; Gradio's forgets all models but the first."""

    @classmethod
    def drawn(cls) -> SignInButton:
        """Create the button of a page."""
        return cls(SIGN_IN, SIGN_OUT, variant="secondary", size="sm", scale=0, min_width=0, elem_classes="sign-in")

    def activate(self) -> None:
        """Bind the click, and the name of who is signed in when the page is loaded."""
        self.click(None, self, None, js=on_event("signInOrOut", signIn=SIGN_IN), **QUIET)
        self.attach_load_event(self._check_login_status, None)

    def get_block_name(self) -> str:
        """Return the name of the component in the browser."""
        return "button"

    def get_block_class(self) -> str:
        """Return the same."""
        return "button"
