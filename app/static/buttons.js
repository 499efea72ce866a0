// Buttons in the HTML of a component, which is written anew: the component listens in their place.

import { page } from "../../hfposemb/figures/static/pages/page.js";

/**
 * Return the button that an event is of.
 * @param {Event} event
 * @param {string} [selector]
 * @returns {HTMLElement | null}
 */
function buttonOf({ target }, selector = "button") {
  return target instanceof Element ? target.closest(selector) : null;
}

/**
 * Choose the word of the sentence that a button is.
 * @param {GradioElement} host
 */
export function chooseWord({ element, trigger }) {
  element.addEventListener("click", (event) => {
    const button = buttonOf(event);
    if (button) trigger("select", { place: Number(button.dataset.place) });
  });
}

/**
 * Cancel a job. Its line is written anew four times a second: a button that goes between press and release gets no
 * click.
 * @param {GradioElement} host
 */
export function cancelJob({ element, trigger }) {
  const cancel = (/** @type {Event} */ event) => { if (buttonOf(event)) trigger("select", { action: "cancel" }); };
  element.addEventListener("pointerdown", cancel);
  element.addEventListener("click", (event) => { if (event.detail === 0) cancel(event); }); // by the keyboard
}

/**
 * Save the picture beside a button as PNG, in its own size.
 * @param {HTMLElement} button
 */
async function savePng(button) {
  const picture = button.closest("figure")?.querySelector("img");
  if (!picture) return;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
  canvas.getContext("2d")?.drawImage(picture, 0, 0);
  saveFile([{ url: canvas.toDataURL("image/png"), orig_name: button.dataset.png }]);
}

/**
 * Copy the text beside a button of a recipe or of a fix, or save the picture beside it.
 * @param {GradioElement} host
 */
export function copyRecipe({ element }) {
  element.addEventListener("click", (event) => {
    const button = buttonOf(event, ":is(.recipe, .finding) button");
    if (button?.dataset.png) {
      savePng(button).catch(reportError);
      return;
    }
    const code = button?.closest("div")?.querySelector("pre");
    if (button && code) void page.copy(button, code);
  });
}

/**
 * Save a file that the server has written, so that the button that asked for it suffices.
 * @param {[file: { url: string, orig_name?: string } | null]} values
 */
export function saveFile([file]) {
  if (!file) return;
  const link = document.createElement("a");
  link.href = file.url;
  link.download = file.orig_name ?? "";
  link.click();
}
