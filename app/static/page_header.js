// The header of the page: its theme, its link and its actions.

import { store, stored } from "./storage.js";

/**
 * Follow the theme and the buttons of a header.
 * @param {GradioElement} host
 */
export function pageHeader({ element, trigger }) {
  for (const select of element.querySelectorAll("select")) chooseTheme(select);
  for (const button of element.querySelectorAll("button")) {
    const { action } = button.dataset;
    button.addEventListener("click", () => (action === "Copy link" ? copyLink(button) : trigger("select", { action })));
  }
}

/**
 * Show the theme that is remembered, and remember the one that is chosen.
 * @param {HTMLSelectElement} select
 */
function chooseTheme(select) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choices = [...select.options].map((option) => option.value);
  const show = () => {
    const dark = select.value === "dark" || (select.value === "system" && system.matches);
    document.body.classList.toggle("dark", dark);
  };
  const asked = new URLSearchParams(location.search).get("__theme"); // which Gradio has followed already
  select.value = [stored().theme, asked].find((theme) => choices.includes(theme)) ?? "system";
  show();
  system.addEventListener("change", show);
  select.addEventListener("change", () => {
    store({ theme: select.value });
    show();
  });
}

/**
 * Say in the empty field of the source bar what it is for. Gradio creates the field anew.
 * @param {GradioElement} host
 */
export function sourceField({ element }) {
  const bar = element.closest(".source-bar");
  if (!bar) return;
  const say = () => { for (const input of bar.querySelectorAll("input")) input.placeholder = "+ Add model"; };
  say();
  new MutationObserver(say).observe(bar, { childList: true, subtree: true });
}

/** @param {HTMLButtonElement} button */
async function copyLink(button) {
  await navigator.clipboard.writeText(location.href);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy link"; }, 1500);
}
