// The button to sign in with Hugging Face.

import { store } from "./storage.js";

/**
 * Go to the provider, and from there back to the view on the page; or sign out, which leads to an empty page.
 * @param {string[]} values of the button: its label
 * @param {{ signIn: string }} options the label for a visitor who is not signed in
 */
export function signInOrOut([label], { signIn }) {
  const view = encodeURIComponent("/" + location.search);
  if (label !== signIn) store({ sources: [] }); // among them may be names of private models
  location.assign(label === signIn ? `/login/huggingface?_target_url=${view}` : "/logout?_target_url=/");
}
