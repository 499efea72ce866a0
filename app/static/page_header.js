// The header of the page: its theme, its link and its actions.

import { addressNow } from "./address.js";
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
  addEventListener("beforeprint", () => document.body.classList.remove("dark"));
  addEventListener("afterprint", show);
  select.addEventListener("change", () => {
    store({ theme: select.value });
    show();
  });
}

const SOURCES = "owner/name on the Hub, or a folder or file inside it, such as owner/name/model.gguf or "
  + "owner/name/onnx/model.onnx; an adapter on its base: owner/name?base=owner/base; or a sample";

/**
 * Say in the empty field of the source bar what it is for, and name its buttons. Gradio creates both anew.
 * @param {GradioElement} host
 */
export function sourceField({ element }) {
  const bar = element.closest(".source-bar");
  if (!bar) return;
  const say = () => {
    for (const input of bar.querySelectorAll("input")) {
      input.placeholder = "+ Add model";
      if (input.title !== SOURCES) input.title = SOURCES; // a title set anew would call the observer again
    }
    nameButtons(bar);
  };
  say();
  new MutationObserver(say).observe(bar, {
    childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["title"],
  });
}

/**
 * Name the buttons that remove a choice after what they remove.
 * @param {Element} bar
 */
function nameButtons(bar) {
  for (const button of bar.querySelectorAll(".token-remove")) {
    const chosen = button.closest(".token")?.textContent?.trim();
    const name = button.classList.contains("remove-all") ? "Remove all" : `Remove ${chosen}`;
    if (button.getAttribute("title") !== name) button.setAttribute("title", name);
  }
}

/** @param {HTMLButtonElement} button */
async function copyLink(button) {
  const link = addressNow().then(() => location.href);
  // What is written later than the click has to be promised at once.
  const promised = new ClipboardItem({ "text/plain": link.then((text) => new Blob([text], { type: "text/plain" })) });
  await navigator.clipboard.write([promised]).catch(async () => navigator.clipboard.writeText(await link));
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy link"; }, 1500);
}
